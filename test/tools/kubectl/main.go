// Command kubectl is kubectl at the version in go.mod. The module of kubectl's own main package cannot be installed
// by version, because it replaces its dependencies.
package main

import (
	"k8s.io/component-base/cli"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

func main() {
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
}
