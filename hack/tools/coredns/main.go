// SPDX-FileCopyrightText: The ascendop authors
// SPDX-License-Identifier: Apache-2.0

// CoreDNS with the plugins that a node of the tests needs: without those of the clouds, whose
// client libraries are ten times the server.
package main

import (
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/template"
)

func main() { coremain.Run() }
