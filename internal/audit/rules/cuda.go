package rules

import (
	"slices"

	"assay/internal/atlas"
	"assay/internal/audit"
)

const noCUDAText = "PyTorch for macOS is built without CUDA"

// holds reports whether a condition of the atlas holds in the release aimed at.
func holds(p *audit.Pass, name string) bool {
	return slices.ContainsFunc(p.Target.Atlas.Conditions(), func(c atlas.Condition) bool { return c.Name == name && c.Holds(p.Target.Torch.Version) })
}
