"""One training step of dp-mlp against TensorFlow Privacy's own optimiser with microbatches of one.

    python benchmarks/weights_step.py --lot 256 --steps 50

Both have the same network, the same lot of private rows and Gaussian noise in every step; ours also
takes the synthetic rows' gradients. Prints the median milliseconds of a step, wall and processor,
and their ratio, of one run on one thread.
"""

from __future__ import annotations

import argparse
import os
import time

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def now() -> tuple[float, float]:
    """Wall and processor seconds."""
    return time.perf_counter(), time.process_time()


def ours(x: np.ndarray, args: argparse.Namespace) -> np.ndarray:
    from marginalsyn.plugins.networks.dp_sgd import Network, Training, chunk_rows, train
    from marginalsyn.privacy.noise import make_noise

    rng, chunk = np.random.default_rng(0), chunk_rows(args.lot)
    network = Network(x.shape[1], args.hidden, rng, chunk)
    noise, times = make_noise(), []
    training = Training(
        rate=1.0,
        steps=args.steps + 1,
        lot=args.lot,
        clip_norm=3.0,
        noise_multiplier=4.0,
        learning_rate=0.01,
    )
    train(network, x, x, training, noise, lambda step: times.append(now()))
    return np.median(np.diff(times[1:], axis=0), axis=0)


def plain(x: np.ndarray, args: argparse.Namespace) -> np.ndarray:
    import tensorflow as tf
    from tensorflow_privacy import DPKerasAdamOptimizer

    layers = [tf.keras.layers.Dense(units, activation="tanh") for units in args.hidden]
    model = tf.keras.Sequential([tf.keras.Input((x.shape[1],)), *layers, tf.keras.layers.Dense(1)])
    optimiser = DPKerasAdamOptimizer(
        l2_norm_clip=3.0, noise_multiplier=4.0, num_microbatches=args.lot, learning_rate=0.01
    )
    rows, labels = tf.constant(x, tf.float32), tf.ones((args.lot, 1))

    @tf.function
    def step() -> None:
        with tf.GradientTape(persistent=True) as tape:
            losses = tf.nn.sigmoid_cross_entropy_with_logits(labels, model(rows))[:, 0]
        optimiser.minimize(losses, model.trainable_variables, tape=tape)

    step()
    times = [now()]
    for _ in range(args.steps):
        step()
        times.append(now())
    return np.median(np.diff(times, axis=0), axis=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("--lot", type=int, default=256)
    parser.add_argument("--width", type=int, default=93, help="inputs; 93 are Adult's")
    parser.add_argument("--hidden", type=int, nargs="+", default=[32, 16])
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    x = np.random.default_rng(0).normal(size=(args.lot, args.width))
    import tensorflow as tf

    # One thread each, so that processor time is comparable on a busy machine.
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    mine, theirs = ours(x, args), plain(x, args)
    for name, at in (("wall", 0), ("processor", 1)):
        print(
            f"lot {args.lot}, {name}: dp-mlp {1e3 * mine[at]:.1f} ms, "
            f"plain {1e3 * theirs[at]:.1f} ms, ratio {theirs[at] / mine[at]:.1f}"
        )


if __name__ == "__main__":
    main()
