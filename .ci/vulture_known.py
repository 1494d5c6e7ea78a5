# ruff: noqa: B018, F821
"""Names that nothing in the package calls, with who does. ``vulture`` takes them as used."""

# Pydantic reads it.
_.model_config

# rich-click calls and reads them.
_.format_epilog
_.command_class

# The codec names its queries.
_._prepared

# Python asks a module for the names that it loads late.
__getattr__
__dir__

# Found through entry points, as a third party's are: see pyproject.toml.
Audit
AutoConfig
BetaNoisedConfig
DPCGANConfig
DiscriminatorConfig
LogregConfig
NoneConfig
OutputLaplaceConfig
RakeDpMlpConfig
AttributesReport
BayesReport
AnswersReport
BoundsReport
DistancesReport
LinksReport
MarginalsReport
MembershipReport
NumbersReport
PrivacyReport
TstrReport
WeightsReport
front_page

# Users of other tools call it: see docs/adopt.md.
save

# The registry reads it of a plugin that need not have the base class.
_.reads_bare

# What a synthesizer has learned, for its caller: scikit-learn's names.
_.synthetic_
_.measurements_
_.n_features_in_
_.feature_names_in_

# The test kit, which authors of plugins call.
check_plugin
check_rows_alone
check_weight_recovery

# For mechanisms of a third party: the twin of ``remaining`` for pure charges.
_.remaining_eps

# numpy's and numba's interface of a bit generator.
_.capsule
_.state_address
_.next_uint64
_.next_uint32
_.next_double

# The key of a cache: a process that was forked makes a folder of its own.
process

# An evaluation's numbers as a tidy table, for who works in Python.
_.to_frame

# pydantic calls what it has decorated: validators and serialisers.
_._leave_defaults_out
_._bound_text
_._bins_text
_._numbers
_._complete
_._read_private
_._check_zone
_._check_unit

# Notebooks ask objects for them, and pickle for what may be stored.
_._repr_html_
_._repr_mimebundle_
_.__getstate__

# The commands as methods of a release, for who works in Python.
_.plan_weights
_.certify
_.plan_certificate

# Forms of an exported release, found by name: plugins/exchange/export.py.
csvw
croissant

# A loss that the two engines are compared on: tests/plugins/networks/test_engines.py.
Tilt

# The templates of pages and charts read them.
_.x_title
_.foot

# Operations: click makes commands of them, by the names in cli/ and in the entry points.
Adopt
CapLedger
CheckSchema
Combine
Estimate
Export
ExportDataset
ExportSchema
ImportSchema
InferSchema
ListDatasets
ListLedgers
ListRuns
ForgetRun
Plugins
Show
ShowDataset
ShowLedger
Start
Verify
VerifyLedger
DATASETS
LEDGER
_.stated_by
_.stated_delta
_.stated_eps
_.stated_neighbours
_.stated_rho

# Python asks an importer for it.
_.exec_module

# Jinja reads it.
_.filters

# Inspect reads it.
_.__signature__

# For Python, as docs/datasets.md has it.
private_table
