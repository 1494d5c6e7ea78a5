"""DP-CGAN: an adversarial network conditional on the label, its discriminator trained privately."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from marginalsyn.contract import option
from marginalsyn.plugins.networks.dpgan import DPGAN, DPGANConfig

if TYPE_CHECKING:
    from marginalsyn.privacy.budget import Budget
    from marginalsyn.table.schema import Schema


@dataclass(frozen=True, kw_only=True)
class DPCGANConfig(DPGANConfig):
    """A conditional adversarial network, trained privately (Torkzadehmahani et al. 2019).

    As :class:`~marginalsyn.plugins.networks.dpgan.DPGANConfig`, but rows are made *for* a value of
    one column, the label by default: its noisy counts, a small charge of their own, say how often
    each value is asked for, and both networks see the value. So the label's shares are those of the
    counts, and a rare class is not lost. A schema without a label, or with nothing else, is
    generated as ``dpgan`` does.

    Example:
        >>> DPCGANConfig(condition="sex").condition
        'sex'
    """

    name = "dpcgan"
    summary = "adversarial network conditional on the label, trained by DP-SGD"

    condition: str | None = option(
        None, "The column that the generator is conditioned on. [default: the label]"
    )

    def configure(self, schema: Schema, budget: Budget) -> DPGAN:
        return DPGAN(config=self, schema=schema, budget=budget, given=self.given(schema))

    def given(self, schema: Schema) -> tuple[str, ...]:
        """The columns that rows are made for."""
        name = schema.label if self.condition is None else schema.column(self.condition).name
        return (name,) if name is not None and len(schema.names) > 1 else ()
