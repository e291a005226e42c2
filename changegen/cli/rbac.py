"""``changegen rbac``."""

from __future__ import annotations

import sys

import click

from changegen.cli.options import ClusterOptions, cluster_options, emit, output_option
from changegen.cli.options import command as make
from changegen.cli.terminal import hint, plain, table

__all__ = ["command"]


@make("rbac")
@cluster_options
@click.option("--name", default="changegen-reader", show_default=True, help="Name of the roles and bindings.")
@click.option("--user", metavar="NAME", help="Bind the roles to this user.")
@click.option("--group", metavar="NAME", help="Bind the roles to this group.")
@click.option("--service-account", metavar="NAMESPACE/NAME", help="Bind the roles to this ServiceAccount.")
@click.option(
    "--distribution",
    type=click.Choice(["openshift", "k0s"]),
    default=None,
    help="With what that one needs beside.",
)
@click.option(
    "--check",
    is_flag=True,
    help="Ask the cluster which of the rights the reader has (SelfSubjectAccessReview); exit 4 if one is missing.",
)
@output_option()
def rbac(
    cluster: ClusterOptions,
    name: str,
    user: str | None,
    group: str | None,
    service_account: str | None,
    distribution: str | None,
    check: bool,
    output: str | None,
) -> None:
    """Print the least read-only rights for a snapshot as YAML, or check them.

    --configz adds get nodes/proxy, a powerful right: it reaches the kubelets' whole API.
    """
    from changegen import rbac as table_of_rights

    rules = table_of_rights.rules(configz=cluster.configz, distribution=distribution or "")
    if check:
        sys.exit(_check(cluster, table_of_rights.rights(rules), output))
    given = [part for part in (user, group, service_account) if part]
    if len(given) > 1:
        raise click.UsageError("give one of --user, --group and --service-account")
    subject: tuple[str, str, str] | None = None
    if user:
        subject = ("User", "", user)
    elif group:
        subject = ("Group", "", group)
    elif service_account:
        namespace, slash, account = service_account.partition("/")
        if not slash or not namespace or not account:
            raise click.UsageError("--service-account is NAMESPACE/NAME")
        subject = ("ServiceAccount", namespace, account)
    emit(table_of_rights.manifest(rules, name=name, subject=subject), output)
    hint("kubectl apply -f FILE, then changegen rbac --check")


def _check(cluster: ClusterOptions, rights: tuple[object, ...], output: str | None) -> int:
    from changegen.cli.options import live_options
    from changegen.collect import api
    from changegen.rbac import Right

    opened = api.open_cluster(live_options(cluster))
    rows = []
    missing = 0
    for right in rights:
        if not isinstance(right, Right):
            continue
        allowed = opened.review(right)
        missing += allowed is not True
        word = {True: "yes", False: "NO", None: "unknown"}[allowed]
        rows.append((word, str(right)))
    emit("\n".join(table(rows)) + "\n", output)
    if missing:
        click.echo(plain(f"{missing} of {len(rows)} rights are missing"), err=True)
        hint("changegen rbac prints the roles")
        return 0 if cluster.allow_partial else 4
    return 0


command = rbac
