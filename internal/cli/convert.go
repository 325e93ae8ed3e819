package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"assay/internal/convert"
	"assay/internal/layout"
	"assay/internal/weights"
)

// convertOptions are the flags of `assay convert`.
type convertOptions struct {
	From, To, Recipe, Names, DType    string
	Kinds, Flatten                    []string
	KeepRest, Explain, Dry, Unchecked bool
}

func newConvertCommand(env *Env) *cobra.Command {
	var opts convertOptions
	cmd := &cobra.Command{
		Use:   "convert IN OUT",
		Short: "Convert a file of weights between PyTorch, Keras and MLX",
		Long: `Writes the tensors of IN, a file of weights of any kind that assay reads, to OUT in the layout of another framework: kernels of convolutions and
dense layers permuted, names as that framework has them, floats as another type. What a tensor is follows from a recipe that knows its name, from --kind, or
from the bias beside it where that leaves one answer; never from its shape alone. What is not certain is refused by name, with what would tell, and nothing is
written.

OUT is written whole or not at all, read back and compared. A file that is as asked already is copied, and that is said. docs/convert.md has the recipes.`,
		Example: `  assay convert vgg16.pth vgg16.safetensors --to mlx
  assay convert vgg16.pth vgg16.weights.h5 --to keras
  assay convert model.safetensors half.safetensors --dtype bf16
  assay convert model.pt model.safetensors --to mlx --kind 'decoder.*=conv-transpose' --flatten fc1=512x7x7 --dry-run --explain`,
		Args: cobra.ExactArgs(2),
	}
	f := cmd.Flags()
	f.StringVar(&opts.To, "to", "", "`framework` whose layout and names OUT gets: torch, keras, mlx (default: as IN)")
	f.StringVar(&opts.From, "from", "", "`framework` whose layout IN has, where the file does not tell")
	f.StringVar(&opts.Recipe, "recipe", "", "`recipe` that names the tensors (default: the one that fits IN)")
	f.StringVar(&opts.Names, "names", "", "`form` of the recipe that OUT gets its names from (default: the first of the framework)")
	f.StringVar(&opts.DType, "dtype", "", "`type` that floats get: f16, bf16, f32; integers stay")
	f.StringArrayVar(&opts.Kinds, "kind", nil, "`NAME=KIND`: what tensors are that no recipe names; * in NAME; "+
		strings.Join(layout.Kinds(), ", "))
	f.StringArrayVar(&opts.Flatten, "flatten", nil, "`NAME=CxHxW`: what a dense layer's input is flattened from")
	f.BoolVar(&opts.KeepRest, "keep-rest", false, "copy tensors that the recipe does not name")
	f.BoolVar(&opts.Explain, "explain", false, "print each pairing and why")
	f.BoolVar(&opts.Dry, "dry-run", false, "say what would be done, and write nothing")
	f.BoolVar(&opts.Unchecked, "no-verify", false, "do not read OUT back")
	cmd.RunE = func(_ *cobra.Command, args []string) error { return runConvert(env, opts, args[0], args[1]) }
	return cmd
}

// asked makes options of flags.
func (o convertOptions) asked() (asked convert.Options, err error) {
	asked = convert.Options{Recipe: o.Recipe, Names: o.Names, KeepRest: o.KeepRest}
	for _, of := range []struct {
		flag, word string
		to         *layout.Framework
	}{{"--from", o.From, &asked.From}, {"--to", o.To, &asked.To}} {
		if of.word == "" {
			continue
		}
		framework, ok := layout.ParseFramework(of.word)
		if !ok {
			return asked, usage(fmt.Errorf("convert: %s %q is no framework that is known", of.flag, of.word),
				"there are torch, keras and mlx")
		}
		*of.to = framework
	}
	if o.DType != "" {
		if asked.DType, err = convert.ParseDType(o.DType); err != nil {
			return asked, usage(fmt.Errorf("convert: --dtype: %w", err), "")
		}
	}
	for _, text := range o.Kinds {
		rule, err := convert.ParseRule(text)
		if err == nil {
			_, _, err = convert.ParseKind(rule.Value)
		}
		if err != nil {
			return asked, usage(fmt.Errorf("convert: --kind: %w", err), "kinds: "+strings.Join(layout.Kinds(), ", ")+
				"; depthwise:2 with two outputs for each input")
		}
		asked.Kinds = append(asked.Kinds, rule)
	}
	for _, text := range o.Flatten {
		rule, err := convert.ParseRule(text)
		if err == nil {
			_, err = convert.ParseExtent(rule.Value)
		}
		if err != nil {
			return asked, usage(fmt.Errorf("convert: --flatten: %w", err), "as in --flatten fc1=512x7x7")
		}
		asked.Flatten = append(asked.Flatten, rule)
	}
	return asked, nil
}

func runConvert(env *Env, opts convertOptions, in, out string) error {
	asked, err := opts.asked()
	if err != nil {
		return err
	}
	asked.Keras = strings.HasSuffix(strings.ToLower(out), ".weights.h5")
	if asked.Keras && asked.To == "" {
		asked.To = layout.Keras
	}
	if asked.Keras && asked.To != layout.Keras {
		return usage(fmt.Errorf("convert: %s is a file of Keras's, and --to says %s", out, asked.To),
			"write .safetensors or .npz, or convert --to keras")
	}
	if a, err := os.Stat(env.Path(in)); err == nil {
		if b, err := os.Stat(env.Path(out)); err == nil && os.SameFile(a, b) {
			return usage(errors.New("convert: IN and OUT are one file"), "name another OUT")
		}
	}
	f, err := weights.Open(env.Path(in))
	if err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	defer f.Close()
	f.Path = in // as it was named
	p, err := convert.Make(f, asked)
	if err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	if opts.Explain {
		if err := p.Explain(env.Stdout); err != nil {
			return err
		}
	}
	if err := p.Err(); err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	if err := p.Summary(env.Stdout); err != nil {
		return err
	}
	if opts.Dry {
		_, err := io.WriteString(env.Stdout, "nothing was written (--dry-run)\n")
		return err
	}
	return writeConverted(env, p, out, !opts.Unchecked)
}
