package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"

	"assay/internal/convert"
	"assay/internal/fault"
	"assay/internal/layout"
	"assay/internal/unit"
	"assay/internal/weights"
)

// writeConverted writes what a plan says, reads it back, and only then gives it its name: a file that was there before
// stands until then. Where a conversion of the same was killed, it goes on.
func writeConverted(env *Env, p *convert.Plan, out string, check bool) error {
	// what is held is one tensor and some blocks: garbage may be a tenth of that, and not as much again
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	outs := p.Outs()
	w, err := createConverted(p, env.Path(out), outs)
	if err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	defer w.Remove()
	stood := w.Done()
	if stood > 0 {
		fmt.Fprintf(env.Stdout, "%d of %d tensors stood already, from a conversion that was cut short: it goes on there\n",
			stood, len(outs))
	}
	if err := convert.Write(outs, w); err != nil {
		err = fmt.Errorf("convert: %w", err)
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG) {
			size := int64(0)
			for _, t := range outs {
				size += t.Bytes
			}
			err = fault.Hint(err, fmt.Sprintf("it takes %s there; nothing of it was kept", unit.Bytes(float64(size))))
		}
		return err
	}
	if n := p.Overflow(); n > 0 {
		of := ""
		if stood > 0 {
			of = " of those written now"
		}
		fmt.Fprintf(env.Stdout, "%d finite values%s are larger than the type holds, and became infinite\n", n, of)
	}
	said := "not read back"
	if check {
		if err := w.Verify(); err != nil {
			return fault.Hint(fmt.Errorf("convert: %w", err),
				"nothing was kept of it: the disk or assay erred; convert again")
		}
		said = "read back and found as written"
	}
	if err := w.Commit(); err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	_, err = fmt.Fprintf(env.Stdout, "wrote %s, %s\n", out, said)
	return err
}

// createConverted begins the file of a plan, or goes on with it.
func createConverted(p *convert.Plan, out string, outs []weights.Tensor) (*weights.Writer, error) {
	lower := strings.ToLower(out)
	meta := p.Meta
	switch filepath.Ext(lower) {
	case ".h5":
		if !strings.HasSuffix(lower, ".weights.h5") {
			return nil, fault.Hint(fmt.Errorf("no whole model is written, and %s is the name of one", filepath.Base(out)),
				"Keras's files of weights end in .weights.h5")
		}
		meta = map[string]string{} // what it has no place for
		for group, name := range p.Layers {
			meta["layer:"+group] = name
		}
	case ".pt", ".pth", ".bin":
		if p.To != layout.Torch {
			return nil, fault.Hint(fmt.Errorf("%s is the name of a file of PyTorch's, and its layout is not",
				filepath.Base(out)), "write .safetensors, or convert --to torch")
		}
	}
	from := p.Fingerprint(Version())
	if from == "" {
		return weights.Create(out, meta, outs)
	}
	return weights.Resume(out, meta, outs, from)
}
