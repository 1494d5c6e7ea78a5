"""Networks on TensorFlow, whose rows' gradients TensorFlow Privacy clips.

Its fast gradient clipping finds per-example norms without per-example gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from marginalsyn.errors import MissingExtraError
from marginalsyn.libraries import took_part
from marginalsyn.weights.per_row import CHUNK, RowNetwork


class Network(RowNetwork):
    """The same network as :class:`~marginalsyn.weights.per_row.DenseNetwork`, on TensorFlow.

    Rows go through a compiled step ``chunk`` at a time; see :func:`chunk_rows`. Clipping is
    TensorFlow Privacy's.
    """

    def _build(self) -> None:
        self._tf = tf = load_tensorflow()
        self._clipping, registry = _load_clipping()
        self._registry = registry.make_default_layer_registry()
        # First values come from rng alone: zeros keep Keras from drawing any.
        plain = {"dtype": "float64", "kernel_initializer": "zeros"}
        *hidden, outputs = (bias[0] for bias in self.shapes[1::2])
        layers = [tf.keras.layers.Dense(units, activation="tanh", **plain) for units in hidden]
        layers.append(tf.keras.layers.Dense(outputs, **plain))
        x = found = tf.keras.Input((self.shapes[0][0],), dtype="float64")
        for layer in layers:
            found = layer(found)
        if self._skip:
            layers.append(tf.keras.layers.Dense(outputs, use_bias=False, **plain))
            found = tf.keras.layers.Add(dtype="float64")([found, layers[-1](x)])
        self.model = tf.keras.Model(x, found)
        self._variables = [one for layer in layers for one in layer.trainable_variables]

    def _set(self, parts: list[np.ndarray]) -> None:
        for variable, part in zip(self._variables, parts, strict=True):
            variable.assign(part)

    def outputs(self, x: np.ndarray) -> np.ndarray:
        parts = [
            self.model(x[start : start + 8 * CHUNK], training=False).numpy()
            for start in range(0, len(x), 8 * CHUNK)
        ]
        return np.concatenate([np.empty((0, self.model.output_shape[1])), *parts])

    def _clipped(self, x: np.ndarray, labels: np.ndarray, clip_norm: float) -> np.ndarray:
        # The step is compiled once, for chunks that are padded.
        missing = self.chunk - len(x)
        rows, given = (np.pad(part.astype(float), ((0, missing), (0, 0))) for part in (x, labels))
        mask = (np.arange(self.chunk) < len(x)).astype(np.float64)
        return self._step(rows, mask, given, np.float64(clip_norm)).numpy()

    @cached_property
    def _step(self) -> Callable[..., Any]:
        tf, clipping, model, chunk = self._tf, self._clipping, self.model, self.chunk
        loss, variables = self._loss, self._variables

        def losses(labels: Any, outputs: Any, weights: Any = None) -> Any:
            del weights
            return loss.tensor(tf, labels, outputs)

        @tf.function(
            autograph=False,
            input_signature=[
                tf.TensorSpec((chunk, model.input_shape[1]), tf.float64),
                tf.TensorSpec((chunk,), tf.float64),
                tf.TensorSpec((chunk, loss.width), tf.float64),
                tf.TensorSpec((), tf.float64),
            ],
        )
        def step(x: Any, mask: Any, labels: Any, clip_norm: Any) -> Any:
            norms = clipping.compute_gradient_norms(
                model, self._registry, x, labels, per_example_loss_fn=losses
            )
            finite = tf.math.is_finite(norms)
            clipped = clipping.compute_clip_weights(clip_norm, norms)
            weights = mask * tf.where(finite, clipped, tf.zeros_like(clipped))
            # Zero times a gradient that is not finite is not zero: the row itself has to go.
            sound = tf.where(finite[:, None], x, tf.zeros_like(x))
            with tf.GradientTape() as tape:
                total = tf.reduce_sum(weights * losses(labels, model(sound, training=True)))
            return tf.concat([tf.reshape(g, [-1]) for g in tape.gradient(total, variables)], 0)

        return step


def load_tensorflow() -> Any:
    """Import TensorFlow without its log; if it is missing, name the command that installs it."""
    import os

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        import tensorflow as tf
    except ImportError as error:
        raise MissingExtraError("private training of networks", "tensorflow") from error
    took_part("tensorflow", "computes gradients")
    return tf


def _load_clipping() -> tuple[Any, Any]:
    """Import TensorFlow Privacy's clipping, or name the command that installs it."""
    try:
        from tensorflow_privacy.privacy.fast_gradient_clipping import clip_grads, layer_registry
    except ImportError as error:
        raise MissingExtraError("private training of networks", "tensorflow") from error
    took_part("tensorflow-privacy", "clips the gradient of each row")
    return clip_grads, layer_registry
