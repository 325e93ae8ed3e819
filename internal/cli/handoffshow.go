package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"assay/internal/bundle"
	"assay/internal/fault"
)

func newHandoffShowCommand(env *Env) *cobra.Command {
	var json bool
	cmd := &cobra.Command{
		Use:   "show BUNDLE",
		Short: "Verify a bundle, and say what is in it and what is not",
		Long: `Reads the bundle to its end, holds each file against the SHA-256 in its manifest, and says what is in it, what was left out, and what is missing.
Nothing is unpacked.

Exit status: 0 where it is whole, 1 where it is not, or no bundle.`,
		Example: "  assay handoff show bundle.tar.zst",
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().BoolVar(&json, "json", false, "print the manifest")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		b, err := bundle.Open(env.Path(args[0]))
		if err != nil {
			return err
		}
		if json {
			return printJSON(env.Stdout, b.Manifest)
		}
		return sayBundle(env.Stdout, b, args[0])
	}
	return cmd
}

func newHandoffUnitCommand(env *Env) *cobra.Command {
	var root, name, user string
	var launchd, systemd, keep bool
	cmd := &cobra.Command{
		Use:   "unit BUNDLE --root FOLDER",
		Short: "Print the unit that runs a bundle's command under launchd or systemd",
		Long: `Prints the unit of a bundle that was unpacked to FOLDER, an absolute path: FOLDER/code is its code, FOLDER/env the environment of Python that was
made for it, FOLDER/logs what the unit prints. The unit sets exactly the variables that the run had; those that hold secrets are named in a comment.

launchd: put it into ~/Library/LaunchAgents, then launchctl bootstrap user/$UID FILE, over ssh too. With --user it is a daemon for
/Library/LaunchDaemons, which runs before anybody has logged in. systemd: put it into ~/.config/systemd/user, then systemctl --user start NAME.`,
		Example: `  assay handoff unit bundle.tar.zst --root /Users/ada/runs/vit --launchd > ~/Library/LaunchAgents/assay.vit.plist
  assay handoff unit bundle.tar.zst --root /srv/vit --systemd > ~/.config/systemd/user/vit.service`,
		Args: cobra.ExactArgs(1),
	}
	f := cmd.Flags()
	f.StringVar(&root, "root", "", "`folder` that the bundle was unpacked to, absolute")
	f.StringVar(&name, "name", "", "`label` of the job; default assay.RUN")
	f.BoolVar(&launchd, "launchd", false, "a property list for launchd")
	f.BoolVar(&systemd, "systemd", false, "a unit for systemd")
	f.StringVar(&user, "user", "", "with --launchd: a daemon that runs as this `user`")
	f.BoolVar(&keep, "keep", false, "start it again where it fails")
	cmd.MarkFlagsMutuallyExclusive("launchd", "systemd")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if !filepath.IsAbs(root) || strings.ContainsAny(root, "\n\t") {
			return fault.Exit(fault.Hint(fmt.Errorf("--root %q: an absolute path", root),
				"see: assay handoff unit --help"), fault.Usage)
		}
		if !launchd && !systemd {
			return fault.Exit(fault.Hint(errors.New("no form of unit: --launchd or --systemd"),
				"see: assay handoff unit --help"), fault.Usage)
		}
		if user != "" && !launchd {
			return fault.Exit(errors.New("--user: with --launchd alone"), fault.Usage)
		}
		b, err := bundle.Open(env.Path(args[0]))
		if err != nil {
			return err
		}
		if why := b.Manifest.Command.Why; why != "" {
			return fmt.Errorf("the command of %s cannot be run as it is: %s", args[0], why)
		}
		u := b.Manifest.Unit(name, filepath.Clean(root))
		u.User, u.Keep = user, keep
		write := u.Systemd
		if launchd {
			write = u.Launchd
		}
		unit, err := write()
		if err != nil {
			return fmt.Errorf("write the unit of %s: %w", args[0], err)
		}
		_, err = env.Stdout.Write(unit)
		return err
	}
	return cmd
}
