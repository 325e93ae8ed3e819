package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"assay/internal/fault"
	"assay/internal/weights"
)

// tensorsOptions are the flags of `assay tensors`.
type tensorsOptions struct {
	Names       string
	Stats, JSON bool
}

func newTensorsCommand(env *Env) *cobra.Command {
	var opts tensorsOptions
	cmd := &cobra.Command{
		Use:   "tensors FILE|FOLDER…",
		Short: "Say what is in files of weights: names, shapes, types, sizes, statistics, checksums",
		Long: `Lists the tensors of each FILE, a line each, and totals by type; no framework is needed and nothing in a file is run. A folder stands for
the index in it and the files that it names (model.safetensors.index.json), or for its one safetensors file.

Only headers are read, so that the answer comes at once however large a file is. With --stats each tensor is read as well: minimum, maximum, mean
and standard deviation of its finite elements, how many are zero, NaN and infinite, and the SHA-256 of its elements in row-major order and
little-endian, which is the same for the same tensor in any format. docs/tensors.md says which formats and types there are, and what is refused.

Exit status: 0 where each file could be read; 1 where one could not, or no tensor fits --names; 2 where the command line is wrong.`,
		Example: `  assay tensors model.safetensors
  assay tensors --stats --names '*.bias' weights.npz
  assay tensors --json model/`,
		Args: cobra.MinimumNArgs(1),
	}
	f := cmd.Flags()
	f.StringVar(&opts.Names, "names", "", "only tensors whose name fits the `pattern`: * any characters, ? one, [a-z] one of those")
	f.BoolVar(&opts.Stats, "stats", false, "read the tensors too: statistics and checksums")
	f.BoolVar(&opts.JSON, "json", false, "print the record ("+weights.Schema+")")
	cmd.RunE = func(_ *cobra.Command, args []string) error { return runTensors(env, opts, args) }
	return cmd
}

func runTensors(env *Env, opts tensorsOptions, paths []string) error {
	if _, err := (&weights.File{}).Named(opts.Names); err != nil {
		return usage(fmt.Errorf("--names %q: %w", opts.Names, err), "a [ wants its ]; see: assay tensors --help")
	}
	out := bufio.NewWriterSize(env.Stdout, 1<<16)
	record := weights.Listing{Schema: weights.Schema, Files: []weights.Listed{}}
	var failed []error
	found, first := false, true
	for _, path := range paths {
		listed, err := listTensors(env, opts, path, first, out)
		if errors.Is(err, errWriting) {
			return err
		}
		if err != nil {
			listed = weights.Listed{Path: path, Error: err.Error(), Meta: map[string]string{}, Notes: []string{},
				Tensors: []weights.Row{}, Totals: []weights.Total{}}
			failed = append(failed, err)
		} else {
			first = false
		}
		found = found || len(listed.Tensors) > 0
		record.Files = append(record.Files, listed)
	}
	if opts.JSON {
		if err := record.JSON(out); err != nil {
			return err
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if !found && opts.Names != "" && len(failed) == 0 {
		failed = append(failed, fault.Hint(fmt.Errorf("tensors: no name fits %q", opts.Names),
			"assay tensors without --names lists all"))
	}
	return errors.Join(failed...)
}

// errWriting is in an error of standard output: there is nobody left to say anything to.
var errWriting = errors.New("print the tensors")

// listTensors lists one file, as text where no JSON is wanted.
func listTensors(env *Env, opts tensorsOptions, path string, first bool,
	out *bufio.Writer) (weights.Listed, error) {
	f, err := weights.Open(env.Path(path))
	if err != nil {
		return weights.Listed{}, err
	}
	defer f.Close()
	f.Path = path
	tensors, err := f.Named(opts.Names)
	if err != nil {
		return weights.Listed{}, err
	}
	listed := f.Listed()
	var text io.Writer = out
	if opts.JSON {
		text = io.Discard
	} else if !first {
		fmt.Fprintln(out)
	}
	table := weights.NewTable(text, f, tensors, opts.Stats, width(env, env.Stdout))
	for _, t := range tensors {
		var sum *weights.Sum
		if opts.Stats {
			s, err := t.Sum()
			if err != nil {
				return weights.Listed{}, fmt.Errorf("reading weights from %s: %w", path, err)
			}
			sum = &s
		}
		row := weights.RowOf(t, sum)
		listed.Add(row)
		err := table.Row(row)
		if err == nil && opts.Stats { // each line as it comes
			err = out.Flush()
		}
		if err != nil {
			return weights.Listed{}, fmt.Errorf("%w: %w", errWriting, err)
		}
	}
	listed.Sort()
	if err := table.End(listed); err != nil {
		return weights.Listed{}, fmt.Errorf("%w: %w", errWriting, err)
	}
	return listed, nil
}
