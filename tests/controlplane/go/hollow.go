package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	certutil "k8s.io/client-go/util/cert"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/configz"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	fakeremote "k8s.io/cri-client/pkg/fake"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	kubeletapp "k8s.io/kubernetes/cmd/kubelet/app"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	kubeletscheme "k8s.io/kubernetes/pkg/kubelet/apis/config/scheme"
	cadvisortest "k8s.io/kubernetes/pkg/kubelet/cadvisor/testing"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubemark"
	utilflag "k8s.io/kubernetes/pkg/util/flag"
)

// hollowKubelet is what kubemark's hollow kubelet is (a real kubelet on a fake runtime and a stub container manager),
// and what kubemark's command leaves out: a serving certificate, authentication and authorisation as kubeadm sets
// them, feature gates of its own, /configz, and static Pods of a chosen folder.
type hollowKubelet struct {
	kubeconfig, name, rootDir, manifests, clientCA string
	criSocket, ends                                string
	port                                           int
	maxPods                                        int
	labels, resources                              map[string]string
	taints                                         []v1.Taint
	gates                                          map[string]bool
}

func newHollowKubeletCommand() *cobra.Command {
	h := &hollowKubelet{labels: map[string]string{}, resources: map[string]string{}, gates: map[string]bool{}}
	command := &cobra.Command{
		Use:  "hollow-kubelet",
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return h.run(command.Context()) },
	}
	flags := command.Flags()
	flags.StringVar(&h.kubeconfig, "kubeconfig", "", "kubeconfig of the node")
	flags.StringVar(&h.name, "name", "", "node name")
	flags.StringVar(&h.rootDir, "root-dir", "", "an existing folder for the kubelet's files")
	flags.StringVar(&h.manifests, "pod-manifest-path", "", "folder of static Pods")
	flags.StringVar(&h.clientCA, "client-ca-file", "", "CA of client certificates")
	flags.StringVar(&h.criSocket, "cri-socket", "", "socket that the fake runtime listens on")
	flags.StringVar(&h.ends, "ends", "", "folder with a file, named as a container, for each real process that ended")
	flags.IntVar(&h.port, "port", 10250, "serving port (TLS)")
	flags.IntVar(&h.maxPods, "max-pods", 110, "Pods that the node takes")
	flags.Var((*cliflag.ConfigurationMap)(&h.labels), "node-labels", "labels of the node")
	flags.Var((*cliflag.ConfigurationMap)(&h.resources), "extended-resources", "allocatable of a device plugin: NAME=QUANTITY,...")
	flags.Var(utilflag.RegisterWithTaintsVar{Value: &h.taints}, "register-with-taints", "taints of the node")
	flags.Var(cliflag.NewMapStringBool(&h.gates), "feature-gates", "feature gates")
	return command
}

func (h *hollowKubelet) run(ctx context.Context) error {
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(h.gates); err != nil {
		return fmt.Errorf("failed to set feature gates: %w", err)
	}
	utilfeature.DefaultMutableFeatureGate.AddMetrics()

	flags, config := kubemark.GetHollowKubeletConfig(&kubemark.HollowKubeletOptions{
		NodeName: h.name, KubeletPort: h.port, KubeletReadOnlyPort: 0, MaxPods: h.maxPods,
		NodeLabels: h.labels, RegisterWithTaints: h.taints,
	})
	// GetHollowKubeletConfig made a root folder of its own under /tmp.
	if err := os.RemoveAll(flags.RootDirectory); err != nil {
		return err
	}
	flags.RootDirectory = filepath.Join(h.rootDir, "kubelet")
	config.PodLogsDir = filepath.Join(h.rootDir, "pod-logs")
	config.FileCheckFrequency.Duration = time.Second
	config.StaticPodPath = h.manifests
	config.FeatureGates = h.gates
	config.Authentication.X509.ClientCAFile = h.clientCA
	config.Authentication.Webhook.Enabled = true
	config.Authentication.Anonymous.Enabled = false
	config.Authorization.Mode = kubeletconfig.KubeletAuthorizationModeWebhook

	clientConfig, err := clientcmd.BuildConfigFromFlags("", h.kubeconfig)
	if err != nil {
		return err
	}
	clientConfig.UserAgent = "hollow-kubelet"
	clientConfig.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(clientConfig)
	if err != nil {
		return err
	}
	heartbeatConfig := *clientConfig
	heartbeatConfig.QPS = -1
	heartbeatConfig.Timeout = config.NodeStatusUpdateFrequency.Duration
	heartbeat, err := kubernetes.NewForConfig(&heartbeatConfig)
	if err != nil {
		return err
	}

	resources := v1.ResourceList{}
	for name, quantity := range h.resources {
		parsed, err := resource.ParseQuantity(quantity)
		if err != nil {
			return fmt.Errorf("--extended-resources %s=%s: %w", name, quantity, err)
		}
		resources[v1.ResourceName(name)] = parsed
	}
	fake := fakeremote.NewFakeRemoteRuntime()
	fake.RuntimeService.FakeStatus = &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
		{Type: runtimeapi.RuntimeReady, Status: true},
		{Type: runtimeapi.NetworkReady, Status: true},
	}}
	if h.criSocket != "" {
		if err := fake.Start("unix://" + h.criSocket); err != nil {
			return err
		}
	}
	ending := &endingRuntime{FakeRuntimeService: fake.RuntimeService, brief: map[string]bool{}}
	if h.ends != "" {
		go ending.watchEnds(ctx, h.ends)
	}
	var runtime internalapi.RuntimeService = ending
	var images internalapi.ImageManagerService = fake.ImageService
	hollow := kubemark.NewHollowKubelet(flags, config, client, heartbeat, &cadvisortest.Fake{NodeName: h.name},
		images, runtime, cm.NewStubContainerManagerWithDevicePluginResource(resources))

	auth, reload, err := kubeletapp.BuildAuth(types.NodeName(h.name), client, *config)
	if err != nil {
		return err
	}
	reload(ctx.Done())
	hollow.KubeletDeps.Auth = auth

	certificate, key, err := certutil.GenerateSelfSignedCertKey(h.name, nil, nil)
	if err != nil {
		return err
	}
	certFile, keyFile := filepath.Join(h.rootDir, "serving.crt"), filepath.Join(h.rootDir, "serving.key")
	if err := os.WriteFile(certFile, certificate, 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(keyFile, key, 0o600); err != nil {
		return err
	}
	if hollow.KubeletDeps.TLSOptions, err = servingTLS(certFile, keyFile, h.clientCA); err != nil {
		return err
	}
	if err := publishConfig(config); err != nil {
		return err
	}
	hollow.Run(ctx)
	return nil
}

func publishConfig(config *kubeletconfig.KubeletConfiguration) error {
	published, err := configz.New("kubeletconfig")
	if err != nil {
		return err
	}
	scheme, _, err := kubeletscheme.NewSchemeAndCodecs()
	if err != nil {
		return err
	}
	versioned := &kubeletv1beta1.KubeletConfiguration{}
	if err := scheme.Convert(config, versioned, nil); err != nil {
		return err
	}
	versioned.SetGroupVersionKind(kubeletv1beta1.SchemeGroupVersion.WithKind("KubeletConfiguration"))
	return setConfig(published, versioned)
}
