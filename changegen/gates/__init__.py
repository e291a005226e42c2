"""Feature gates as the components read them: parsing, effective values, start-up verdicts, forecasts.

Everything here is pure and answers from `KubernetesData`. The rules are those of the components' own code:

- kube-apiserver, kube-controller-manager, kube-scheduler collect `--feature-gates` in a registry of components
  (component-base `compatibility/registry.go`, `cli/flag/colon_separated_multimap_string_string.go`) and apply them
  after `--emulated-version` and `--min-compatibility-version`.
- kubelet and kube-proxy read a map (component-base `cli/flag/map_string_bool.go`). The kubelet applies its flags alone
  first, then file, drop-ins and flags merged (cmd/kubelet/app/server.go); kube-proxy takes the file alone when it has
  `--config`, though a flag that it cannot read still stops it (cmd/kube-proxy/app/options.go).
- All apply them by component-base `featuregate/feature_gate.go`, from the table of the binary, at the emulated version.

A component walks Go maps in random order. Where that decides which of several faults it names, `StartVerdict` keeps
the alternatives, and `StartVerdict.explains` tells whether an observed set of messages is one of them.
"""

from changegen.gates.flags import flag_values, go_parse_bool, go_quote
from changegen.gates.forecasts import Forecast, ForecastKind, GateForecast, HopForecast, forecast
from changegen.gates.reading import (
    ALL_ALPHA,
    ALL_BETA,
    COMPONENTS,
    REGISTRY_COMPONENTS,
    GateEntry,
    GateSources,
    ParsedGates,
    parse_gates,
)
from changegen.gates.table import GateProblem, ProblemKind, spec_at, versions_in_force
from changegen.gates.verdicts import Alternative, StartStage, StartVerdict, effective, start

__all__ = [
    "ALL_ALPHA",
    "ALL_BETA",
    "COMPONENTS",
    "REGISTRY_COMPONENTS",
    "Alternative",
    "Forecast",
    "ForecastKind",
    "GateEntry",
    "GateForecast",
    "GateProblem",
    "GateSources",
    "HopForecast",
    "ParsedGates",
    "ProblemKind",
    "StartStage",
    "StartVerdict",
    "effective",
    "flag_values",
    "forecast",
    "go_parse_bool",
    "go_quote",
    "parse_gates",
    "spec_at",
    "start",
    "versions_in_force",
]
