// Command assay tells, with evidence, whether and how deep-learning code runs on an Apple GPU.
package main

import (
	"os"

	"assay/internal/cli"
)

func main() { os.Exit(cli.Main(cli.OSEnv(), os.Args[1:])) }
