// Command controlplane is every program of a Kubernetes control plane in one binary. It acts as the name that it is
// called by, or as its first argument: etcd, etcdctl, etcdutl, kube-apiserver, kube-controller-manager,
// kube-scheduler, kubelet, kube-proxy, kubeadm, kubectl, kubemark, hollow-kubelet, kubedata.
//
// One source serves all versions: each k8s-VERSION.mod requires one release of k8s.io/kubernetes and the etcd that
// this release names. Where the releases differ, a file has the build constraint of its minor (k8s1_36 and so on).
package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"
	_ "time/tzdata"

	"go.etcd.io/etcd/etcdctl/v3/ctlv3"
	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubectl/pkg/cmd"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubeadm "k8s.io/kubernetes/cmd/kubeadm/app"
	kubeadmerrors "k8s.io/kubernetes/cmd/kubeadm/app/util/errors"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
	kubemark "k8s.io/kubernetes/cmd/kubemark/app"
)

var programs = map[string]func() int{
	"etcd":                    func() int { etcdmain.Main(os.Args); return 0 },
	"etcdctl":                 func() int { ctlv3.MustStart(); return 0 },
	"etcdutl":                 etcdutl,
	"kube-apiserver":          func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func() int { return cli.Run(controllermanager.NewControllerManagerCommand()) },
	"kube-scheduler":          func() int { return cli.Run(scheduler.NewSchedulerCommand()) },
	"kube-proxy":              func() int { return cli.Run(proxy.NewProxyCommand()) },
	"kubelet":                 func() int { return cli.Run(kubelet.NewKubeletCommand(context.Background())) },
	"kubemark":                func() int { return cli.Run(kubemark.NewHollowNodeCommand()) },
	"hollow-kubelet":          func() int { return cli.Run(newHollowKubeletCommand()) },
	"kubeadm":                 func() int { kubeadmerrors.HandleError(kubeadm.Run()); return 0 },
	"kubectl":                 kubectl,
	"kubedata":                kubedataMain,
}

func kubectl() int {
	if _, err := logs.GlogSetter(cmd.GetLogVerbosity(os.Args)); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		cmdutil.CheckErr(err)
	}
	return 0
}

func main() {
	name := filepath.Base(os.Args[0])
	run, found := programs[name]
	if !found && len(os.Args) > 1 {
		name = os.Args[1]
		if run, found = programs[name]; found {
			os.Args = append([]string{name}, os.Args[2:]...)
		}
	}
	if !found {
		names := make([]string, 0, len(programs))
		for n := range programs {
			names = append(names, n)
		}
		sort.Strings(names)
		fmt.Fprintf(os.Stderr, "usage: controlplane PROGRAM [ARGUMENT ...]; programs: %s\n", strings.Join(names, ", "))
		os.Exit(2)
	}
	endWithParent()
	useTunnel()
	os.Exit(run())
}

// useTunnel has this process reach the addresses of CONTROLPLANE_TUNNEL's cluster through that proxy. The variables that
// Go reads once are taken away again, since kubeadm writes them into the manifests.
func useTunnel() {
	tunnel := os.Getenv("CONTROLPLANE_TUNNEL")
	if tunnel == "" {
		return
	}
	own := map[string]string{"HTTPS_PROXY": tunnel, "NO_PROXY": "localhost"}
	for name := range own {
		_ = os.Unsetenv(strings.ToLower(name))
	}
	for name, value := range own {
		_ = os.Setenv(name, value)
	}
	request := &http.Request{URL: &url.URL{Scheme: "https", Host: "192.0.2.1"}}
	if used, err := http.ProxyFromEnvironment(request); err != nil || used == nil {
		fmt.Fprintln(os.Stderr, "the tunnel cannot be used:", tunnel, err)
		os.Exit(2)
	}
	for name := range own {
		_ = os.Unsetenv(name)
	}
}

// endWithParent ends this process when the one that started it is gone, so that no killed test run leaves servers behind.
func endWithParent() {
	if os.Getenv("CONTROLPLANE_END_WITH_PARENT") == "" {
		return
	}
	parent := os.Getppid()
	go func() {
		for os.Getppid() == parent {
			time.Sleep(500 * time.Millisecond)
		}
		os.Exit(137)
	}()
}
