"""python -m tests.controlplane: build the binaries, start a cluster to play with, renew the recorded captures."""

from __future__ import annotations

import argparse
import importlib
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import yaml

from tests.controlplane import build
from tests.controlplane.cluster import Cluster, Node, Plan, control_plane
from tests.controlplane.process import ComponentError


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line and run it; the exit code is returned."""
    parser = argparse.ArgumentParser(prog="python -m tests.controlplane", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)

    command = commands.add_parser("build", help="build binaries that are missing from the cache")
    command.add_argument(
        "--version",
        action="append",
        help="a Kubernetes version; may be repeated (default: those of the tests)",
    )
    command.add_argument(
        "--update-modules", action="store_true", help="let go complete the .mod and .sum files"
    )
    command.set_defaults(run=_build)

    command = commands.add_parser("add-version", help="write the Go module of another Kubernetes version")
    command.add_argument("version")
    command.set_defaults(run=_add_version)

    command = commands.add_parser("path", help="print the folder of a version's programs")
    command.add_argument("--version", required=True)
    command.set_defaults(run=_path)

    command = commands.add_parser("up", help="start a cluster, and stop it at Ctrl-C")
    command.add_argument("--version", default=build.cluster_versions()[-1])
    command.add_argument("--control-planes", type=int, default=1)
    command.add_argument("--workers", type=int, default=2)
    command.add_argument(
        "--etcd-members", type=int, default=1, help="real etcd members, at most one a control plane"
    )
    command.add_argument("--config", type=Path, help="YAML that is laid over kubeadm's ClusterConfiguration")
    command.add_argument("--root", type=Path, help="folder of the cluster (default: a temporary one)")
    command.add_argument(
        "--scene", action="store_true", help="with the drivers and workloads of the recorded scene"
    )
    command.set_defaults(run=_up)

    command = commands.add_parser("record", help="make the captures of an upgrade anew")
    command.add_argument("--from", dest="before", default="1.36.3")
    command.add_argument("--to", dest="after", default="1.37.2")
    command.add_argument("output", type=Path, help="folder that the captures are written to")
    command.set_defaults(run=_record)

    command = commands.add_parser(
        "oracle", help="compare changegen's gate verdicts with started components", add_help=False
    )
    command.set_defaults(run=_oracle)

    options, rest = parser.parse_known_args(arguments)
    options.rest = rest
    if rest and options.command != "oracle":
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    try:
        return int(options.run(options))
    except (build.BuildError, ComponentError) as error:
        print(error, file=sys.stderr)
        return 1


def _build(options: argparse.Namespace) -> int:
    chosen = options.version or build.cluster_versions()
    if shutil.which("go") is None and not build.required():
        for version in chosen:
            print(build.missing_reason(version) or f"{version}: {build.binary_dir(version)}", file=sys.stderr)
        return 0
    for version in chosen:
        started = time.monotonic()
        folder = build.build(version, update_modules=options.update_modules)
        print(f"{version}: {folder} ({time.monotonic() - started:.0f} s)", flush=True)
    return 0


def _add_version(options: argparse.Namespace) -> int:
    print(build.write_module(options.version))
    print(build.build(options.version, update_modules=True))
    return 0


def _path(options: argparse.Namespace) -> int:
    if reason := build.missing_reason(options.version):
        print(reason, file=sys.stderr)
        return 1
    print(build.binary_dir(options.version))
    return 0


def _up(options: argparse.Namespace) -> int:
    build.build(options.version)
    configuration = yaml.safe_load(options.config.read_text(encoding="utf-8")) if options.config else {}
    if options.scene:
        from tests.controlplane import scene

        plan = scene.plan(options.version)
    else:
        masters = [control_plane(f"cp-{number}") for number in range(1, options.control_planes + 1)]
        workers = [Node(name=f"worker-{number}") for number in range(1, options.workers + 1)]
        members = [node.name for node in masters[: options.etcd_members]]
        plan = Plan(
            version=options.version,
            nodes=[*masters, *workers],
            configuration=configuration,
            running={"etcd": members},
        )
    # SIGTERM takes the same way out as Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="controlplane-") as folder:
        try:
            with Cluster(plan, options.root or Path(folder)) as cluster:
                if options.scene:
                    scene.populate(cluster)
                print(f"export KUBECONFIG={cluster.kubeconfig}")
                print(f"export PATH={cluster.binaries()}:$PATH", flush=True)
                print(
                    f"The cluster of {options.version} runs until Ctrl-C; logs: {cluster.root}/logs",
                    file=sys.stderr,
                )
                signal.pause()
        except KeyboardInterrupt:
            return 0
    return 0


def _record(options: argparse.Namespace) -> int:
    from tests.controlplane import record

    for version in (options.before, options.after):
        build.build(version)
    record.record(options.before, options.after, options.output)
    return 0


def _oracle(options: argparse.Namespace) -> int:
    oracle = importlib.import_module("tests.controlplane.oracle")
    return int(oracle.main(options.rest))


if __name__ == "__main__":
    sys.exit(main())
