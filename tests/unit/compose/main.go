// Reads docker-compose.yaml of the working folder as Compose does, its .env included, and prints what it understood.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
)

func main() {
	options, err := cli.NewProjectOptions(
		[]string{"docker-compose.yaml"}, cli.WithOsEnv, cli.WithEnvFiles(), cli.WithDotEnv)
	exit(err)
	project, err := options.LoadProject(context.Background())
	exit(err)
	shown, err := project.MarshalJSON()
	exit(err)
	fmt.Println(string(shown))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
