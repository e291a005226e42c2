from __future__ import annotations

import gzip
import json
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from werkzeug import Request, Response

from changegen import rbac
from changegen.collect import Options, api, build_snapshot
from changegen.collect.documents import Document, ListSeen, Problem, RawText
from changegen.errors import ConnectError

NODES = [{"metadata": {"name": f"node-{i}", "uid": f"u{i}"}, "status": {"nodeInfo": {}}} for i in range(1200)]


class FakeServer:
    """An API server on loopback that serves lists by path; ``special`` answers first."""

    def __init__(self, http: Any) -> None:
        self.http = http
        self.lists: dict[str, tuple[str, list[Any]]] = {"/api/v1/nodes": ("Node", NODES[:3])}
        self.special: dict[str, Any] = {}
        self.seen: list[Request] = []
        self.lock = threading.Lock()
        http.expect_request("/", method="GET").respond_with_handler(self.answer)
        import re

        http.expect_request(re.compile(".*")).respond_with_handler(self.answer)

    def answer(self, request: Request) -> Response:
        with self.lock:
            self.seen.append(request)
        path = request.path
        special = self.special.get(path)
        if special is not None:
            return special if isinstance(special, Response) else special(request)
        if path == "/version":
            return reply({"major": "1", "minor": "37", "gitVersion": "v1.37.2"})
        if path == "/api":
            return reply(
                discovery(
                    {
                        "": {
                            "v1": {
                                "nodes": "Node",
                                "pods": "Pod",
                                "namespaces": "Namespace",
                                "events": "Event",
                            }
                        }
                    }
                )
            )
        if path == "/apis":
            return reply(discovery(self.groups()))
        if path in {"/readyz", "/metrics", "/flagz", "/statusz"}:
            texts = {
                "/readyz": "[+]ping ok\nreadyz check passed\n",
                "/metrics": '# TYPE kubernetes_feature_enabled gauge\nkubernetes_feature_enabled{name="A",stage="BETA"} 1\n',
                "/flagz": "\nkube-apiserver flagz\nWarning: …\n\nfeature-gates=:A=true\n",
                "/statusz": "\nkube-apiserver statusz\nWarning: …\n\nBinary version: 1.37.2\n",
            }
            return Response(texts[path], content_type="text/plain")
        if path in self.lists:
            kind, items = self.lists[path]
            return reply(page(kind, items, request))
        if "/configmaps/" in path:
            return status(404, "NotFound", "configmaps not found")
        return reply(page("Thing", [], request))

    def groups(self) -> dict[str, Any]:
        return {
            "apps": {"v1": {"daemonsets": "DaemonSet"}},
            "resource.k8s.io": {
                "v1beta1": {"resourceslices": "ResourceSlice"},
                "v1": {"resourceslices": "ResourceSlice", "deviceclasses": "DeviceClass"},
                "v1beta2": {"devicetaintrules": "DeviceTaintRule", "resourceslices": "ResourceSlice"},
            },
        }

    def paths(self) -> list[str]:
        return [request.path for request in self.seen]


def reply(value: Any) -> Response:
    return Response(
        json.dumps(value), content_type="application/json", headers={"Date": "Tue, 01 Dec 2026 02:55:40 GMT"}
    )


def status(code: int, reason: str, message: str, **headers: str) -> Response:
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": reason,
        "message": message,
        "code": code,
    }
    return Response(json.dumps(body), status=code, content_type="application/json", headers=headers)


def discovery(groups: dict[str, dict[str, dict[str, str]]]) -> dict[str, Any]:
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "items": [
            {
                "metadata": {"name": group},
                "versions": [
                    {
                        "version": version,
                        "resources": [
                            {"resource": r, "responseKind": {"kind": k}, "scope": "Cluster"}
                            for r, k in resources.items()
                        ],
                    }
                    for version, resources in versions.items()
                ],
            }
            for group, versions in groups.items()
        ],
    }


def page(kind: str, items: list[Any], request: Request) -> dict[str, Any]:
    limit = int(request.args.get("limit", "0")) or len(items)
    start = int(request.args.get("continue", "0"))
    metadata = {"resourceVersion": "7"}
    if start + limit < len(items):
        metadata["continue"] = str(start + limit)
    return {
        "kind": f"{kind}List",
        "apiVersion": "v1",
        "metadata": metadata,
        "items": items[start : start + limit],
    }


@pytest.fixture
def server(httpserver: Any) -> FakeServer:
    return FakeServer(httpserver)


def kubeconfig(folder: Path, url: str, user: dict[str, Any] | None = None, **cluster: Any) -> str:
    path = folder / "kubeconfig"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "clusters": [{"name": "c", "cluster": {"server": url, **cluster}}],
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": user or {"token": "secret-token-0123456789"}}],
    }
    path.write_text(json.dumps(config), encoding="utf-8")
    return str(path)


@pytest.fixture
def cluster(server: FakeServer, tmp_path: Path):
    def opened(**options: Any) -> api.Cluster:
        config = kubeconfig(tmp_path, server.http.url_for("").rstrip("/"))
        return api.open_cluster(api.LiveOptions(kubeconfig=config, **options))

    return opened


def problems(records: list[Any]) -> dict[str, Problem]:
    return {r.place: r for r in records if isinstance(r, Problem) and r.failed}


def lists(records: list[Any]) -> dict[str, ListSeen]:
    return {r.resource: r for r in records if isinstance(r, ListSeen)}


# ---------------------------------------------------------------------------------------------------------------- reading


def test_records_are_those_of_files(server, cluster):
    opened = cluster()
    records = list(opened.records())
    nodes = [r for r in records if isinstance(r, Document) and r.kind == "Node"]
    assert [json.loads(bytes(n.data))["metadata"]["name"] for n in nodes] == ["node-0", "node-1", "node-2"]
    assert nodes[0].place.startswith("/api/v1/nodes")
    assert lists(records)["nodes"].count == 3
    assert {r.role for r in records if isinstance(r, RawText)} == {"metrics", "flagz", "statusz", "readyz"}
    assert problems(records) == {}
    snapshot = build_snapshot(
        records, Options(kind="live", requests=opened.requests, captured_at=opened.captured_at)
    )
    assert snapshot.cluster.server_version == "v1.37.2"
    assert [n.name for n in snapshot.nodes] == ["node-0", "node-1", "node-2"]
    assert snapshot.captured_at == opened.captured_at
    assert abs(datetime.fromisoformat(opened.captured_at) - datetime.now(UTC)) < timedelta(seconds=30)
    assert "GET /api/v1/nodes 1" in snapshot.source.requests


def test_the_order_does_not_depend_on_who_answers_first(server, cluster):
    def slow(request: Request) -> Response:
        time.sleep(0.2)
        return reply(page("Namespace", [], request))

    first = [getattr(r, "place", "") for r in cluster().records()]
    server.special["/api/v1/namespaces"] = slow
    assert [getattr(r, "place", "") for r in cluster().records()] == first


def test_only_gets_are_sent_and_never_for_secrets(server, cluster):
    list(cluster(configz=True).records())
    assert {r.method for r in server.seen} == {"GET"}
    assert not [p for p in server.paths() if "secret" in p.lower()]
    asked = {p for p in server.paths() if "configmaps" in p}
    assert asked == {
        f"/api/v1/namespaces/{ns}/configmaps/{n}" for ns, names in rbac.CONFIG_MAPS.items() for n in names
    }


def test_user_agent_gzip_token_and_impersonation(server, cluster):
    list(cluster(impersonate="bob", impersonate_group="sre").records())
    headers = server.seen[0].headers
    assert headers["User-Agent"].startswith("changegen/")
    assert headers["Accept-Encoding"] == "gzip"
    assert headers["Authorization"] == "Bearer secret-token-0123456789"
    assert (headers["Impersonate-User"], headers["Impersonate-Group"]) == ("bob", "sre")


def test_a_packed_answer_is_unpacked(server, cluster):
    data = gzip.compress(json.dumps({"kind": "NodeList", "apiVersion": "v1", "items": NODES[:2]}).encode())
    server.special["/api/v1/nodes"] = Response(
        data, content_type="application/json", headers={"Content-Encoding": "gzip"}
    )
    assert lists(list(cluster().records()))["nodes"].count == 2


def test_lists_come_in_pages(server, cluster):
    server.lists["/api/v1/nodes"] = ("Node", NODES)
    records = list(cluster().records())
    assert lists(records)["nodes"].count == 1200
    names = {
        json.loads(bytes(r.data))["metadata"]["name"]
        for r in records
        if isinstance(r, Document) and r.kind == "Node"
    }
    assert len(names) == 1200
    asked = [r for r in server.seen if r.path == "/api/v1/nodes"]
    assert [r.args.get("continue") for r in asked] == [None, "500", "1000"]
    assert {r.args["limit"] for r in asked} == {"500"}


def test_an_expired_page_starts_the_list_again(server, cluster):
    server.lists["/api/v1/nodes"] = ("Node", NODES)
    expired = iter([True, False])

    def nodes(request: Request) -> Response:
        if request.args.get("continue") == "500" and next(expired, False):
            return status(410, "Expired", "The provided continue parameter is too old")
        return reply(page("Node", NODES, request))

    server.special["/api/v1/nodes"] = nodes
    records = list(cluster().records())
    assert lists(records)["nodes"].count == 1200
    assert problems(records) == {}
    names = [
        json.loads(bytes(r.data))["metadata"]["name"]
        for r in records
        if isinstance(r, Document) and r.kind == "Node"
    ]
    assert len(names) == len(set(names))


def test_a_list_whose_pages_always_expire_is_read_in_one_piece(server, cluster):
    def nodes(request: Request) -> Response:
        if request.args.get("continue"):
            return status(410, "Expired", "too old")
        return reply(page("Node", NODES, request))

    server.special["/api/v1/nodes"] = nodes
    records = list(cluster().records())
    assert lists(records)["nodes"].count == 1200
    assert "limit" not in [r for r in server.seen if r.path == "/api/v1/nodes"][-1].args


def test_the_best_served_version_is_read_and_no_deprecated_one(server, cluster):
    records = list(cluster().records())
    assert "/apis/resource.k8s.io/v1/resourceslices" in server.paths()
    assert "/apis/resource.k8s.io/v1beta2/devicetaintrules" in server.paths()
    assert not [
        p for p in server.paths() if "v1beta1" in p or p == "/apis/resource.k8s.io/v1beta2/resourceslices"
    ]
    missing = [r for r in records if isinstance(r, Problem) and r.kind == "ResourceClaim"]
    assert [(m.code, m.failed) for m in missing] == [(404, False)]


def test_a_server_without_aggregated_discovery(server, cluster):
    groups = [
        {"name": name, "versions": [{"groupVersion": f"{name}/{v}", "version": v} for v in versions]}
        for name, versions in (("apps", ["v1"]), ("other.example.com", ["v1"]))
    ]
    server.special["/api"] = reply({"kind": "APIVersions", "versions": ["v1"]})
    server.special["/apis"] = reply({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
    server.special["/api/v1"] = reply(
        {
            "kind": "APIResourceList",
            "groupVersion": "v1",
            "resources": [{"name": "nodes", "kind": "Node", "namespaced": False}],
        }
    )
    server.special["/apis/apps/v1"] = reply(
        {
            "kind": "APIResourceList",
            "groupVersion": "apps/v1",
            "resources": [{"name": "daemonsets", "kind": "DaemonSet"}],
        }
    )
    records = list(cluster().records())
    assert set(lists(records)) >= {"nodes", "daemonsets.apps"}
    assert "/apis/other.example.com/v1" not in server.paths()
    assert "/apis/apps/v1/deployments" not in server.paths()


# -------------------------------------------------------------------------------------------------------- what fails


def test_a_forbidden_kind_is_a_problem_with_the_servers_words_and_the_rest_is_read(server, cluster):
    message = (
        'nodes is forbidden: User "bob" cannot list resource "nodes" in API group "" at the cluster scope'
    )
    server.special["/api/v1/nodes"] = status(403, "Forbidden", message)
    records = list(cluster().records())
    problem = problems(records)["/api/v1/nodes"]
    assert (problem.kind, problem.code, problem.failed, problem.detail) == ("Node", 403, True, message)
    assert problem.unobserved_reason == "forbidden"
    assert "nodes" not in lists(records)
    assert "pods" in lists(records)
    snapshot = build_snapshot(records, Options(kind="live"))
    (lacking,) = [u for u in snapshot.unobserved if u.what == "nodes"]
    assert (lacking.reason, lacking.failed) == ("forbidden", True)


def test_rights_in_kube_system_alone_still_show_the_control_plane(server, cluster):
    server.special["/api/v1/pods"] = status(403, "Forbidden", "pods is forbidden at the cluster scope")
    pod = {"metadata": {"name": "kube-apiserver-cp-1", "namespace": "kube-system", "uid": "p"}, "spec": {}}
    server.lists["/api/v1/namespaces/kube-system/pods"] = ("Pod", [pod])
    records = list(cluster().records())
    assert problems(records)["/api/v1/pods"].code == 403
    assert (lists(records)["pods"].count, lists(records)["pods"].namespace) == (1, "kube-system")
    snapshot = build_snapshot(records, Options(kind="live"))
    assert snapshot.namespaces_read["pods"] == ("kube-system",)
    assert [u.reason for u in snapshot.unobserved if u.what == "pods"] == ["forbidden"]


def test_a_list_cut_by_an_error_keeps_its_pages_and_is_not_complete(server, cluster):
    def nodes(request: Request) -> Response:
        if request.args.get("continue") == "1000":
            return status(500, "InternalError", "etcdserver: request timed out")
        return reply(page("Node", NODES, request))

    server.special["/api/v1/nodes"] = nodes
    records = list(cluster().records())
    seen = lists(records)["nodes"]
    assert (seen.count, seen.complete) == (1000, False)
    assert problems(records)["/api/v1/nodes"].code == 500


def test_429_is_waited_for_as_the_server_says(server, cluster, monkeypatch):
    waits: list[float] = []
    monkeypatch.setattr(api.time, "sleep", waits.append)
    answers = iter([status(429, "TooManyRequests", "slow down", **{"Retry-After": "2"})])
    server.special["/api/v1/nodes"] = lambda request: (
        next(answers, None) or reply(page("Node", NODES[:1], request))
    )
    records = list(cluster().records())
    assert waits == [2.0]
    assert lists(records)["nodes"].count == 1
    assert problems(records) == {}


def test_429_for_ever_ends(server, cluster, monkeypatch):
    waits: list[float] = []
    monkeypatch.setattr(api.time, "sleep", waits.append)
    server.special["/api/v1/nodes"] = lambda _: status(
        429, "TooManyRequests", "slow down", **{"Retry-After": "3600"}
    )
    assert problems(list(cluster().records()))["/api/v1/nodes"].code == 429
    assert waits == [api.MAX_WAIT_SECONDS] * api.MAX_WAITS


def test_503_of_an_aggregated_api(server, cluster):
    server.special["/apis/apps/v1/daemonsets"] = status(
        503, "ServiceUnavailable", "the server is currently unable"
    )
    problem = problems(list(cluster().records()))["/apis/apps/v1/daemonsets"]
    assert (problem.kind, problem.group, problem.code) == ("DaemonSet", "apps", 503)


def test_404_of_debugging_paths_is_no_failure(server, cluster):
    server.special["/flagz"] = status(404, "NotFound", "not found")
    server.special["/metrics"] = status(403, "Forbidden", "forbidden: cannot get path /metrics")
    records = list(cluster().records())
    assert set(problems(records)) == {"/metrics"}
    assert "flagz" not in {r.role for r in records if isinstance(r, RawText)}


def test_readyz_that_says_no_is_read(server, cluster):
    server.special["/readyz"] = Response("[+]ping ok\n[-]etcd failed: reason withheld\n", status=500)
    records = list(cluster().records())
    (text,) = [r for r in records if isinstance(r, RawText) and r.role == "readyz"]
    assert "[-]etcd" in text.text


def test_a_slow_answer_ends_with_the_timeout(server, cluster):
    def slow(request: Request) -> Response:
        time.sleep(1.0)
        return reply(page("Node", [], request))

    server.special["/api/v1/nodes"] = slow
    records = list(cluster(request_timeout=0.3).records())
    problem = problems(records)["/api/v1/nodes"]
    assert "0.3 s (--request-timeout)" in problem.detail
    assert problem.unobserved_reason == "error"


def test_a_redirect_is_not_followed(server, cluster):
    server.special["/version"] = Response(status=302, headers={"Location": "http://elsewhere.example.com/"})
    with pytest.raises(ConnectError, match="redirect"):
        list(cluster().records())


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (status(401, "Unauthorized", "Unauthorized"), "does not accept the credentials"),
        (Response("<html>login</html>", content_type="text/html"), "no Kubernetes API server"),
    ],
)
def test_what_is_no_usable_server(server, cluster, answer, said):
    server.special["/version"] = answer
    with pytest.raises(ConnectError, match=said):
        list(cluster().records())


def test_a_cluster_that_refuses_everything(httpserver, tmp_path):
    httpserver.expect_request("/version").respond_with_json({"gitVersion": "v1.37.2"})
    import re

    denied = {"kind": "Status", "message": 'User "bob" cannot', "code": 403}
    httpserver.expect_request(re.compile(".*")).respond_with_json(denied, status=403)
    opened = api.open_cluster(
        api.LiveOptions(kubeconfig=kubeconfig(tmp_path, httpserver.url_for("").rstrip("/")))
    )
    records = []
    with pytest.raises(ConnectError, match=r"refuses everything.*changegen rbac"):
        records.extend(opened.records())


def test_nothing_listens(tmp_path):
    unused_port = 1
    opened = api.open_cluster(
        api.LiveOptions(kubeconfig=kubeconfig(tmp_path, f"http://127.0.0.1:{unused_port}"))
    )
    with pytest.raises(ConnectError, match="nothing listens there") as caught:
        list(opened.records())
    assert caught.value.exit_code == 1
    assert caught.value.where == f"http://127.0.0.1:{unused_port}"


# --------------------------------------------------------------------------------------------------------- kubeconfig


def test_a_credential_plugin_that_is_missing_is_named_with_its_version(tmp_path):
    user = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1alpha1",
            "command": "no-such-plugin",
            "args": ["x"],
        }
    }
    config = kubeconfig(tmp_path, "https://192.0.2.1:6443", user)
    with pytest.raises(ConnectError) as caught:
        api.open_cluster(api.LiveOptions(kubeconfig=config))
    text = str(caught.value)
    assert "no-such-plugin (client.authentication.k8s.io/v1alpha1) is not installed" in text
    assert "no longer supported" in text
    assert "\n" not in text


def plugin(folder: Path, body: str) -> dict[str, Any]:
    script = folder / "plugin.sh"
    script.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    script.chmod(0o755)
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": str(script),
            "interactiveMode": "Never",
        }
    }


def test_a_credential_plugin_that_fails_shows_no_token(tmp_path):
    body = "echo 'session over, token eyJhbGciOiJSUzI1NiIsImtpZCI6IjEyMzQ1Njc4OTAifQ' >&2; exit 1"
    config = kubeconfig(tmp_path, "https://192.0.2.1:6443", plugin(tmp_path, body))
    with pytest.raises(ConnectError, match=r"failed: process returned 1\. session over") as caught:
        api.open_cluster(api.LiveOptions(kubeconfig=config))
    assert "eyJ" not in str(caught.value)


def test_a_credential_plugin_gives_the_token(server, tmp_path):
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "from-plugin"},
    }
    body = f"echo run >> {tmp_path}/runs; echo '{json.dumps(credential)}'"
    config = kubeconfig(tmp_path, server.http.url_for("").rstrip("/"), plugin(tmp_path, body))
    list(api.open_cluster(api.LiveOptions(kubeconfig=config)).records())
    assert server.seen[0].headers["Authorization"] == "Bearer from-plugin"
    assert (tmp_path / "runs").read_text(encoding="utf-8") == "run\n"


def test_contexts(server, tmp_path):
    config = kubeconfig(tmp_path, server.http.url_for("").rstrip("/"))
    assert api.open_cluster(api.LiveOptions(kubeconfig=config)).context == "main"
    with pytest.raises(ConnectError, match="no context other"):
        api.open_cluster(api.LiveOptions(kubeconfig=config, context="other"))


def test_a_kubeconfig_that_is_missing_or_broken(tmp_path):
    with pytest.raises(ConnectError, match="there is no kubeconfig"):
        api.open_cluster(api.LiveOptions(kubeconfig=str(tmp_path / "nowhere")))
    for text in ("", "a: [", "just text", "clusters: []\n"):
        path = tmp_path / "broken"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ConnectError) as caught:
            api.open_cluster(api.LiveOptions(kubeconfig=str(path)))
        assert "\n" not in str(caught.value)


# ------------------------------------------------------------------------------------------------------ configz, rights


def test_configz_is_read_only_when_asked(server, cluster):
    server.special["/api/v1/nodes/node-1/proxy/configz"] = status(
        503, "ServiceUnavailable", "no route to the kubelet"
    )
    list(cluster().records())
    assert not [p for p in server.paths() if "/proxy/" in p]
    for name in ("node-0", "node-2"):
        server.special[f"/api/v1/nodes/{name}/proxy/configz"] = reply(
            {"kubeletconfig": {"featureGates": {"A": True}}}
        )
    records = list(cluster(configz=True).records())
    configz = [r for r in records if isinstance(r, Document) and r.kind == "KubeletConfigz"]
    assert [r.subject for r in configz] == ["node-0", "node-2"]
    assert problems(records)["/api/v1/nodes/node-1/proxy/configz"].name == "node-1"


def test_reviews(server, cluster):
    def review(request: Request) -> Response:
        spec = json.loads(request.data)["spec"]
        allowed = spec.get("resourceAttributes", {}).get("resource") != "nodes"
        return reply({"status": {"allowed": allowed}})

    server.special["/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"] = review
    opened = cluster()
    assert opened.review(rbac.Right(verb="list", resource="pods")) is True
    assert opened.review(rbac.Right(verb="list", resource="nodes")) is False
    assert opened.review(rbac.Right(verb="get", path="/metrics")) is True
    assert {r.path for r in server.seen} == {"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"}


def test_everything_that_is_read_is_in_the_printed_rights(server, cluster):
    server.lists["/apis/resource.k8s.io/v1/resourceslices"] = ("ResourceSlice", [])
    list(cluster(configz=True).records())
    granted = rbac.rights(rbac.rules(configz=True))
    paths = {r.path for r in granted if r.path}
    resources = {(r.verb, r.group, r.resource, r.subresource, r.name) for r in granted if r.resource}
    free = {"/version", "/readyz", "/api", "/apis"}
    for path in set(server.paths()) - free:
        parts = path.strip("/").split("/")
        if parts[0] not in {"api", "apis"}:
            assert path in paths
        elif "configmaps" in parts:
            assert ("get", "", "configmaps", "", parts[-1]) in resources
        elif "proxy" in parts:
            assert ("get", "", "nodes", "proxy", "") in resources
        else:
            group = parts[1] if parts[0] == "apis" else ""
            assert ("list", group, parts[-1], "", "") in resources, path


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate has expired (_ssl.c:1016)",
            "server's certificate has expired",
        ),
        (
            "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate in certificate chain",
            "not signed by",
        ),
        (
            "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: unable to get local issuer certificate",
            "not signed by",
        ),
        (
            "[SSL: CERTIFICATE_VERIFY_FAILED] Hostname mismatch, certificate is not valid for 'x'.",
            "for another name",
        ),
        (
            "[SSL: SSLV3_ALERT_CERTIFICATE_EXPIRED] sslv3 alert certificate expired",
            "client certificate has expired",
        ),
        ("[SSL: TLSV1_ALERT_UNKNOWN_CA] tlsv1 alert unknown ca", "does not accept the client certificate"),
        ("[SSL: WRONG_VERSION_NUMBER] wrong version number", "TLS failed: [SSL: WRONG_VERSION_NUMBER]"),
    ],
)
def test_what_tls_complains_of_in_plain_words(text, said):
    assert said in api._tls(text)


def test_a_server_that_speaks_no_tls(server, tmp_path):
    url = server.http.url_for("").rstrip("/").replace("http://", "https://")
    opened = api.open_cluster(api.LiveOptions(kubeconfig=kubeconfig(tmp_path, url)))
    with pytest.raises(ConnectError, match="TLS failed") as caught:
        list(opened.records())
    assert "\n" not in str(caught.value)
