"""Holds the verdicts of changegen.gates and changegen.apis against started processes.

Each case starts the real component with its gates and with one more flag that stops it for sure a little later (a
kubeconfig that is not there, a number out of range). So every process ends by itself in a fraction of a second, and its
last error tells whether it got past its gates: then it is the same as without any gate.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, Self

import yaml

from changegen.apis import start_apiserver
from changegen.gates import COMPONENTS, REGISTRY_COMPONENTS, GateSources, StartVerdict, spec_at, start
from changegen.kubedata import KubernetesData, load
from changegen.versions import minor_key, minor_of
from tests.controlplane import build
from tests.controlplane.process import ComponentError, Process, free_port

_FAILED = re.compile(r'"command failed" err="((?:[^"\\]|\\.)*)"')
_FAILED_LINES = re.compile(r'"command failed" err=<\n((?:\t.*\n)+) >')
_STARTED_FOR = 30
_SERVES_IN = 60


@dataclass(frozen=True)
class Case:
    """One start of one component."""

    component: str
    version: str
    sources: GateSources
    runtime_config: tuple[str, ...] = ()
    priority_and_fairness: bool = True
    serves: bool = False
    """kube-apiserver only: it runs with a real etcd until it serves, since it installs its APIs that late."""

    def argv(self, folder: Path) -> list[str]:
        """The flags of this case; configuration files are written into ``folder``."""
        argv = [f"--feature-gates={value}" for value in self.sources.flags]
        argv += [f"--emulated-version={value}" for value in self.sources.emulated]
        argv += [f"--min-compatibility-version={value}" for value in self.sources.min_compat]
        argv += [f"--runtime-config={value}" for value in self.runtime_config]
        if not self.priority_and_fairness:
            argv.append("--enable-priority-and-fairness=false")
        if self.sources.emulation_forward_compatible:
            argv.append("--emulation-forward-compatible")
        if self.sources.runtime_config_emulation_forward_compatible:
            argv.append("--runtime-config-emulation-forward-compatible=true")
        if self.sources.file is not None:
            argv.append(f"--config={_write(folder / 'config.yaml', self.component, self.sources.file)}")
        if self.sources.dropins:
            (folder / "conf.d").mkdir()
            for number, gates in enumerate(self.sources.dropins):
                _write(folder / "conf.d" / f"{number:02}.conf", self.component, gates)
            argv.append(f"--config-dir={folder / 'conf.d'}")
        return argv


def _write(path: Path, component: str, gates: dict[str, bool]) -> Path:
    content: dict[str, Any]
    if component == "kubelet":
        content = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    else:
        content = {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "oomScoreAdj": 5000,
        }
    path.write_text(yaml.safe_dump({**content, "featureGates": dict(gates)}), encoding="utf-8")
    return path


@dataclass(frozen=True)
class Wrong:
    """A case on which changegen and the process differ."""

    case: Case
    expected: str
    observed: str

    def __str__(self) -> str:
        return f"{self.case}\n  changegen: {self.expected}\n  process:   {self.observed}"


@dataclass
class Report:
    """How many cases were tried, and those that were wrong."""

    tried: Counter[str] = field(default_factory=Counter)
    """By component."""
    refused: Counter[str] = field(default_factory=Counter)
    wrong: list[Wrong] = field(default_factory=list)

    def add(self, other: Report) -> None:
        """Take the numbers of another report in."""
        self.tried += other.tried
        self.refused += other.refused
        self.wrong += other.wrong

    def lines(self) -> Iterator[str]:
        """The numbers of each component."""
        wrong = Counter(item.case.component for item in self.wrong)
        for name, tried in sorted(self.tried.items()):
            yield f"{name}: {tried} tried, {self.refused[name]} refused by it, {wrong[name]} wrong"


class Oracle:
    """The components of one release, and what they say when nothing is wrong with their gates."""

    def __init__(self, version: str, folder: Path, data: KubernetesData | None = None) -> None:
        self.version = version
        self.data = data or load()
        self.programs = build.binary_dir(version)
        self.folder = folder
        key = folder / "sa.key"
        if not key.exists():
            command = ["openssl", "genrsa", "-out", str(key), "2048"]
            subprocess.run(command, check=True, capture_output=True)
        # Each of these stops the component after its gates were taken, and before it does anything.
        self.stops = {
            "kube-scheduler": ["--kubeconfig=/nonexistent", "--secure-port=0"],
            "kube-controller-manager": ["--kubeconfig=/nonexistent", "--secure-port=0"],
            "kube-apiserver": [
                "--bind-address=127.0.0.1",
                f"--cert-dir={folder / 'certs'}",
                "--etcd-servers=http://127.0.0.1:1",
                "--service-account-issuer=https://kubernetes.example",
                f"--service-account-key-file={key}",
                f"--service-account-signing-key-file={key}",
                "--service-cluster-ip-range=10.96.0.0/16",
                "--authorization-mode=RBAC",
                "--endpoint-reconciler-type=none",
                "--encryption-provider-config=/nonexistent",
            ],
            "kubelet": ["--registry-burst=-1"],
            "kube-proxy": ["--oom-score-adj=5000"],
        }
        self._baseline: dict[tuple[str, bool], str] = {}
        self._etcd: tuple[Process, str] | None = None
        self._starting = Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._etcd is not None:
            self._etcd[0].stop()

    def etcd(self) -> str:
        """The URL of an etcd of this release; it ends with the oracle."""
        with self._starting:
            if self._etcd is None:
                self._etcd = self._start_etcd()
            return self._etcd[1]

    def _start_etcd(self) -> tuple[Process, str]:
        url, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        flags = {
            "data-dir": str(self.folder / "etcd"),
            "listen-client-urls": url,
            "advertise-client-urls": url,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"default={peer}",
            "unsafe-no-fsync": "true",
        }
        command = [str(self.programs / "etcd"), *(f"--{name}={value}" for name, value in flags.items())]
        process = Process("etcd", command, self.folder / "etcd.log")
        process.wait_until(lambda: "ready to serve client requests" in process.log_tail(200))
        return process, url

    def serving(self, case: Case) -> tuple[int, str]:
        """Exit code and last error of a kube-apiserver with storage; (0, "serves") for one that was ended when it served."""
        flags = [flag for flag in self.stops["kube-apiserver"] if "encryption" not in flag]
        own = f"--etcd-prefix=/{free_port()}"
        with tempfile.TemporaryDirectory(dir=self.folder) as temporary:
            command = [str(self.programs / "kube-apiserver"), *flags, own, f"--etcd-servers={self.etcd()}"]
            command += [f"--secure-port={free_port()}", *case.argv(Path(temporary))]
            process = Process("kube-apiserver", command, Path(temporary) / "log")
            try:
                process.wait_until(lambda: "Serving securely on" in process.log_tail(400), _SERVES_IN)
            except ComponentError as error:
                if error.exit_code is None:
                    return -1, "does not serve"
                return error.exit_code, last_error(process.log_tail(400))
            finally:
                process.stop(0)
        return 0, "serves"

    def error(self, case: Case) -> tuple[int, str]:
        """Exit code and last error of a started process; exit code -1 for one that had to be killed."""
        with tempfile.TemporaryDirectory(dir=self.folder) as temporary:
            command = [str(self.programs / case.component), *self.stops[case.component]]
            if case.component == "kube-apiserver":
                # It listens before it stops, and cases run beside each other.
                command.append(f"--secure-port={free_port()}")
            command += case.argv(Path(temporary))
            try:
                done = subprocess.run(
                    command, capture_output=True, text=True, timeout=_STARTED_FOR, check=False
                )
            except subprocess.TimeoutExpired:
                return -1, "still runs"
        return done.returncode, last_error(done.stderr)

    def configured(self, component: str, text: str) -> tuple[int, str, str]:
        """Exit code, last error and all that a component writes that is started with this configuration file."""
        with tempfile.TemporaryDirectory(dir=self.folder) as temporary:
            path = Path(temporary) / "config.yaml"
            path.write_text(text, encoding="utf-8")
            command = [str(self.programs / component), *self.stops[component], f"--config={path}"]
            for _ in range(20):
                done = subprocess.run(
                    command, capture_output=True, text=True, timeout=_STARTED_FOR, check=False
                )
                # It may be the machine that has none left for a moment.
                if "too many open files" not in done.stderr:
                    break
                time.sleep(1)
        return done.returncode, last_error(done.stderr).replace(temporary, ""), done.stderr

    def baseline(self, component: str, has_file: bool) -> str:
        """What the component says with no gate at all."""
        key = (component, has_file)
        if key not in self._baseline:
            sources = GateSources(file={} if has_file else None)
            code, text = self.error(Case(component, self.version, sources))
            if code != 1:
                raise RuntimeError(
                    f"{component} {self.version} did not stop as it should: exit {code}, {text}"
                )
            self._baseline[key] = text
        return self._baseline[key]

    def check(self, case: Case) -> Wrong | None:
        """Start the component and compare; None where changegen is right."""
        verdict = self.verdict(case)
        if case.serves or verdict.stage == "serving":
            code, text = self.serving(case)
            if code == 0 and verdict.starts:
                return None
            if code == verdict.exit_code and code > 0 and explained(text, "", verdict):
                return None
            expected = "serves" if verdict.starts else f"stops: {verdict.messages}"
            return Wrong(case, expected, f"exit {code}: {text}")
        baseline = self.baseline(case.component, case.sources.file is not None)
        code, text = self.error(case)
        accepted = text == baseline
        if accepted or verdict.starts:
            expected = "starts" if verdict.starts else f"stops: {verdict.messages}"
            return (
                None
                if accepted and verdict.starts and code == 1
                else Wrong(case, expected, f"exit {code}: {text}")
            )
        if code != verdict.exit_code or not explained(text, baseline, verdict):
            return Wrong(
                case,
                f"exit {verdict.exit_code}: {verdict.prefix}{verdict.alternatives}",
                f"exit {code}: {text}",
            )
        return None

    def verdict(self, case: Case) -> StartVerdict:
        """What changegen says."""
        if case.component == "kube-apiserver":
            return start_apiserver(
                case.version,
                case.sources,
                case.runtime_config,
                self.data,
                priority_and_fairness=case.priority_and_fairness,
            )
        return start(case.component, case.version, case.sources, self.data)

    def run(self, cases: Iterable[Case], jobs: int = 2) -> Report:
        """Check many cases."""
        report = Report()
        for component in COMPONENTS:
            for has_file in (False, True) if component not in REGISTRY_COMPONENTS else (False,):
                self.baseline(component, has_file)
        with ThreadPoolExecutor(jobs) as pool:
            listed = list(cases)
            for case, wrong in zip(listed, pool.map(self.check, listed), strict=True):
                report.tried[case.component] += 1
                report.refused[case.component] += self.verdict(case).starts is False
                if wrong is not None:
                    report.wrong.append(wrong)
        return report


def last_error(stderr: str) -> str:
    """The error that a component ended with: logged, printed before logging began, or a panic."""
    logged = _FAILED.findall(stderr)
    if logged:
        # Go quotes like JSON, apart from these three escapes.
        text = (
            re.sub(r"\\x([0-9a-f]{2})", r"\\u00\1", logged[-1])
            .replace(r"\a", r"\u0007")
            .replace(r"\v", r"\u000b")
        )
        return str(json.loads(f'"{text}"', strict=False))
    if long := _FAILED_LINES.findall(stderr):
        return "\n".join(line.removeprefix("\t") for line in str(long[-1]).splitlines())
    lines = stderr.splitlines()
    for mark in ("panic: ", "Error: "):
        found = [line for line in lines if line.startswith(mark)]
        if found:
            return found[0] if mark == "panic: " else found[-1].removeprefix(mark)
    return lines[-1] if lines else ""


def explained(text: str, baseline: str, verdict: StartVerdict) -> bool:
    """Whether a process can have said this by one of the verdict's alternatives.

    Several errors stand in `[a, b]`. The kubelet's validation tells the fault that stops every case beside its own.
    """
    if not text.startswith(verdict.prefix):
        return False
    text = text.removeprefix(verdict.prefix)
    noise: frozenset[str] = frozenset()
    if verdict.stage == "validation" and baseline.startswith(verdict.prefix) and verdict.prefix:
        usual = baseline.removeprefix(verdict.prefix).rpartition(", path: ")[0]
        noise = frozenset(usual.removeprefix("[").removesuffix("]").split(", "))
        text = text.rpartition(", path: ")[0]
    for alternative in verdict.alternatives:
        known = alternative.every | alternative.one_of | alternative.some
        if text in known and alternative.explains({text}):
            return True
        if text.startswith("[") and text.endswith("]"):
            for parts in _partitions(text[1:-1], known | noise):
                if alternative.explains(parts - noise):
                    return True
    return False


def _partitions(text: str, known: frozenset[str]) -> Iterator[set[str]]:
    if not text:
        yield set()
        return
    for message in known:
        if text == message:
            yield {message}
        elif text.startswith(f"{message}, "):
            for rest in _partitions(text[len(message) + 2 :], known):
                yield {message, *rest}


# ------------------------------------------------------------------------------------------------------------ cases


def single_gates(version: str, data: KubernetesData | None = None) -> Iterator[Case]:
    """Every gate that any minor knows, with both values, in every component."""
    for name in (data or load()).gate_names:
        for value in ("true", "false"):
            for component in COMPONENTS:
                yield Case(component, version, GateSources(flags=(f"{name}={value}",)))


def combinations(version: str, number: int, seed: int, data: KubernetesData | None = None) -> Iterator[Case]:
    """Random settings, most of them such as people make, many of them faulty."""
    known = data or load()
    draw = random.Random(f"{seed}/{version}")
    for _ in range(number):
        yield random_case(draw, version, known)


_BOOLEANS = ("true", "false", "1", "0", "t", "F", "True", "FALSE")
_ODD_VALUES = ("yes", "", " true", "false ", "tru", '"true"', "on", "TRUE ", "\ttrue")
_ODD_ITEMS = (
    "NoSuchGate=true",
    "Foo",
    "",
    " ",
    "=true",
    "DRAAdminAccess",
    "cloud:Foo=true",
    "kube:AllAlpha=false",
    "a=b=c",
)


def late_faults(version: str, data: KubernetesData | None = None) -> Iterator[Case]:
    """What kube-apiserver only finds when it has its storage: APIs that it needs, and those newer than it emulates."""
    known = data or load()
    minor = minor_of(version) or version
    for off in (
        "v1=false",
        "api/v1/pods=0",
        "v1=true",
        "apps/v1=false",
        "apiregistration.k8s.io/v1=false",
        "apiregistration.k8s.io/v1/apiservices=F",
        "api/ga=false,v1",
        "api/all=false,apps/v1=true",
        "api/all=false,v1=true,apiregistration.k8s.io/v1=true",
    ):
        yield Case("kube-apiserver", version, GateSources(), (off,), priority_and_fairness=False, serves=True)
    number = int(minor.split(".")[1])
    for emulated in (f"1.{number - back}" for back in (1, 2, 3)):
        keys = {
            key: api.gates
            for api in known.apis(minor)
            if api.served and api.resource and minor_key(api.introduced or "1.0") > minor_key(emulated)
            for key in (api.group_version, f"{api.group_version}/{api.resource}")
        }
        for key, gates in sorted(keys.items()):
            names = [name for name in gates if spec_at(known.gates(minor)[name], minor_key(emulated))]
            needs = sorted({*names, *(dep for name in names for dep in known.gates(minor)[name].depends)})
            for forward, named in ((False, False), (False, True), (True, False)):
                sources = GateSources(
                    flags=(",".join(f"{name}=true" for name in needs),) if needs else (),
                    emulated=(emulated,),
                    emulation_forward_compatible=forward,
                    runtime_config_emulation_forward_compatible=named,
                )
                yield Case("kube-apiserver", version, sources, (f"{key}=true",), serves=True)


def random_case(draw: random.Random, version: str, data: KubernetesData) -> Case:
    """One random case."""
    component = draw.choice(COMPONENTS)
    minor = minor_of(version) or version
    gates = data.gates(minor)
    names = sorted(gates)
    dependents = [name for name in names if gates[name].depends]

    def item() -> str:
        kind = draw.random()
        if kind < 0.08:
            return draw.choice(_ODD_ITEMS)
        if kind < 0.15:
            name = draw.choice(data.gate_names)
        elif kind < 0.4 and dependents:
            name = draw.choice(dependents)
            name = draw.choice([name, *gates[name].depends])
        elif kind < 0.47:
            name = draw.choice(("AllAlpha", "AllBeta"))
        else:
            name = draw.choice(names)
        value = draw.choice(_ODD_VALUES) if draw.random() < 0.05 else draw.choice(_BOOLEANS)
        prefix = ""
        if draw.random() < 0.12:
            prefix = draw.choice(("kube:", "kube:", " kube :", "wardle:"))
        space = draw.choice(("", "", "", " "))
        return f"{prefix}{space}{name}{space}={value}"

    def value() -> str:
        return ",".join(item() for _ in range(draw.choice((1, 1, 2, 3, 5))))

    def table() -> dict[str, bool]:
        found = {}
        for _ in range(draw.choice((0, 1, 2, 4))):
            pick = draw.choice(dependents) if dependents and draw.random() < 0.4 else draw.choice(names)
            found[draw.choice([pick, *gates[pick].depends])] = draw.random() < 0.5
        return found

    flags = tuple(value() for _ in range(draw.choice((0, 1, 1, 1, 2))))
    if component in REGISTRY_COMPONENTS:
        emulated: tuple[str, ...] = ()
        minimum: tuple[str, ...] = ()
        number = int(minor.split(".")[1])
        if draw.random() < 0.45:
            emulated = (draw.choice(_versions(number)),)
        if draw.random() < 0.3:
            minimum = (draw.choice(_versions(number)),)
        if draw.random() < 0.03:
            emulated = (*emulated, draw.choice(_versions(number)))
        apiserver = component == "kube-apiserver"
        return Case(
            component,
            version,
            GateSources(
                flags=flags,
                emulated=emulated,
                min_compat=minimum,
                emulation_forward_compatible=apiserver and draw.random() < 0.08,
                runtime_config_emulation_forward_compatible=apiserver and draw.random() < 0.08,
            ),
            _random_runtime_config(draw, minor, data) if apiserver and draw.random() < 0.4 else (),
        )
    file = table() if draw.random() < 0.5 else None
    dropins: tuple[dict[str, bool], ...] = ()
    if component == "kubelet" and file is not None and draw.random() < 0.3:
        dropins = tuple(table() for _ in range(draw.choice((1, 2))))
    return Case(component, version, GateSources(flags=flags, file=file, dropins=dropins))


def _versions(number: int) -> tuple[str, ...]:
    near = [f"1.{number - back}" for back in (0, 0, 1, 1, 1, 2, 3, 4, -1)]
    odd = (
        f"kube=1.{number - 1}",
        f"1.{number}.0",
        f"1.{number}.2",
        f"v1.{number - 1}",
        "1",
        "x",
        f"foo=1.{number}",
        f" 1.{number}",
        f"kube = 1.{number}",
        f"1.{number},1.{number}",
        f"01.{number}",
        f"1.{number}-rc.1",
    )
    return (*near, *near, *odd)


def _random_runtime_config(draw: random.Random, minor: str, data: KubernetesData) -> tuple[str, ...]:
    facts = data.minor(minor)
    every = sorted(
        {
            f"{group}/{version}"
            for other in data.minors
            for group, versions in data.minor(other).groups.items()
            for version in versions
        }
    )
    items = []
    for _ in range(draw.choice((1, 1, 2, 3))):
        kind = draw.random()
        if kind < 0.2:
            key = draw.choice(("api/all", "api/ga", "api/beta", "api/alpha"))
        elif kind < 0.5:
            key = draw.choice(every)
        elif kind < 0.7:
            api = draw.choice([api for api in facts.apis if api.resource])
            key = f"{api.group}/{api.version}/{api.resource}"
        elif kind < 0.9:
            key = draw.choice(sorted(facts.versions))
        else:
            key = draw.choice(
                (
                    "foo/v1",
                    "v1",
                    "api/legacy",
                    "resource.k8s.io/v1/DeviceClasses",
                    "a/b/c/d",
                    "apps/v9",
                    "/v1",
                    "batch/v1/jobs",
                    "resource.k8s.io/v1beta3",
                )
            )
        items.append(
            key
            + draw.choice(
                ("=true", "=true", "=false", "", "=1", "=maybe" if draw.random() < 0.2 else "=true")
            )
        )
    return (",".join(items),)


PARTS = ("single", "combinations", "late")


def main(arguments: list[str] | None = None) -> int:
    """``python -m tests.controlplane oracle``: everything, with the numbers tried and wrong; 1 where any is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.controlplane oracle", description=__doc__)
    parser.add_argument(
        "--version", action="append", help="Kubernetes versions (default: those of the tests)"
    )
    parser.add_argument(
        "--combinations", type=int, default=800, help="random settings a version (default 800)"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--part",
        action="append",
        choices=PARTS,
        help="some of it: single gates, combinations, or what kube-apiserver finds late (default: all)",
    )
    parser.add_argument("--component", action="append", choices=COMPONENTS, help="(default: all)")
    options = parser.parse_args(arguments)
    total = Report()
    for version in options.version or build.cluster_versions():
        build.build(version)
        with (
            tempfile.TemporaryDirectory(prefix="oracle-") as folder,
            Oracle(version, Path(folder)) as oracle,
        ):
            parts = {
                "single": single_gates(version),
                "combinations": combinations(version, options.combinations, options.seed),
                "late": late_faults(version),
            }
            for name, cases in parts.items():
                if options.part and name not in options.part:
                    continue
                began = time.monotonic()
                wanted = (case for case in cases if case.component in (options.component or COMPONENTS))
                report = oracle.run(wanted, options.jobs)
                total.add(report)
                print(f"{version}, {name} ({time.monotonic() - began:.0f} s)")
                for line in report.lines():
                    print(f"  {line}", flush=True)
    for wrong in total.wrong:
        print(wrong)
    print(f"{total.tried.total()} tried, {len(total.wrong)} wrong")
    return 1 if total.wrong else 0
