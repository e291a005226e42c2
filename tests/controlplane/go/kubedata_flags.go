package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/logs"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubeletoptions "k8s.io/kubernetes/cmd/kubelet/app/options"
)

type flagData struct {
	Type       string `json:"type"`
	Default    string `json:"default,omitempty"`
	Bare       bool   `json:"bare,omitempty"`
	Hidden     bool   `json:"hidden,omitempty"`
	Deprecated string `json:"deprecated,omitempty"`
	Short      string `json:"short,omitempty"`
}

// flags returns every flag of the five components, as their own commands register them. built is told after each
// command, since a command may change defaults of feature gates for itself.
func flags(built func(component string)) (map[string]map[string]flagData, error) {
	found := map[string]map[string]flagData{}
	commands := []struct {
		name  string
		build func() *cobra.Command
	}{
		// The controller manager goes first: it alone overrides defaults, which is refused once flags are registered.
		{"kube-controller-manager", controllermanager.NewControllerManagerCommand},
		{"kube-scheduler", func() *cobra.Command { return scheduler.NewSchedulerCommand() }},
		{"kube-apiserver", apiserver.NewAPIServerCommand},
		{"kube-proxy", proxy.NewProxyCommand},
	}
	for i, command := range commands {
		built := built
		if i > 0 {
			built = func(string) {}
		}
		cmd := command.build()
		built(command.name)
		logs.AddFlags(cmd.PersistentFlags())
		cmd.InitDefaultHelpFlag()
		found[command.name] = flagSet(cmd.Flags(), cmd.PersistentFlags())
	}
	// The kubelet parses its command line itself, with a flag set of its own.
	set := pflag.NewFlagSet("kubelet", pflag.ContinueOnError)
	set.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	config, err := kubeletoptions.NewKubeletConfiguration()
	if err != nil {
		return nil, err
	}
	kubeletoptions.NewKubeletFlags().AddFlags(set)
	kubeletoptions.AddKubeletConfigFlags(set, config)
	kubeletoptions.AddGlobalFlags(set)
	set.BoolP("help", "h", false, "help for kubelet")
	found["kubelet"] = flagSet(set)
	return found, nil
}

func flagSet(sets ...*pflag.FlagSet) map[string]flagData {
	found := map[string]flagData{}
	for _, set := range sets {
		set.VisitAll(func(flag *pflag.Flag) {
			found[flag.Name] = flagData{
				Type: flag.Value.Type(), Default: flag.DefValue, Bare: flag.NoOptDefVal != "", Hidden: flag.Hidden,
				Deprecated: flag.Deprecated, Short: flag.Shorthand,
			}
		})
	}
	return found
}
