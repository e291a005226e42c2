package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	utl "go.etcd.io/etcd/etcdutl/v3/etcdutl"
)

// etcdutl's root command lives in its main package, so that it is put together here from its exported parts.
func etcdutl() int {
	root := &cobra.Command{Use: "etcdutl"}
	root.PersistentFlags().StringVarP(&utl.OutputFormat, "write-out", "w", "simple", "output format: fields, json, protobuf, simple, table")
	root.AddCommand(
		utl.NewDefragCommand(),
		utl.NewSnapshotCommand(),
		utl.NewHashKVCommand(),
		utl.NewVersionCommand(),
		utl.NewMigrateCommand(),
	)
	if err := root.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
