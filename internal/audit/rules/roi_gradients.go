package rules

import (
	"fmt"
	"strings"

	"assay/internal/audit"
	"assay/internal/facts"
)

// RoIGradients finds R-CNNs, and the operators that they are made of, where the release's gradients are wrong.
var RoIGradients = &audit.Rule{Name: "roi-gradients", Title: "an R-CNN, whose gradients are wrong on MPS",
	Claims: []string{"1", "16a"}, Severity: audit.Warning, Doc: audit.Doc{
		Why: "The backward kernels of roi_align, roi_pool, ps_roi_align and ps_roi_pool in torchvision 0.16 to 0.28 add each " +
			"gradient many times on MPS: no error, and training goes to NaN. Prediction is right. torchvision 0.29, " +
			"which goes with PyTorch 2.14, adds each once; 0.15 has no kernel at all.",
		Bad: "import torchvision\nmodel = torchvision.models.detection.fasterrcnn_resnet50_fpn().to(\"mps\")   # under PyTorch 2.8\n" +
			"sum(model(images, targets).values()).backward()\n",
		Good: "import torchvision\nmodel = torchvision.models.detection.retinanet_resnet50_fpn().to(\"mps\")   # has no RoI operator\n" +
			"sum(model(images, targets).values()).backward()\n",
		Source: "the Metal source in torchvision's wheels; vision PR 9510, 9563; pytorch issue 190632",
	}, Calls: []audit.Ask{
		on(both(under("torchvision."), either(ending("FasterRCNN", "MaskRCNN", "KeypointRCNN", "roi_align", "roi_pool",
			"ps_roi_align", "ps_roi_pool", "RoIAlign", "RoIPool", "PSRoIAlign", "PSRoIPool", "MultiScaleRoIAlign"),
			func(path string) bool {
				name := last(path)
				return strings.HasPrefix(name, "fasterrcnn_") || strings.HasPrefix(name, "maskrcnn_") ||
					strings.HasPrefix(name, "keypointrcnn_")
			})), mpsOnly(note)),
		on(ending("backward", "eval"), note),
	}, File: func(p *audit.Pass) {
		wrong := facts.Load().Wrong("torchvision::_roi_align_backward", p.Target.Torch.Version)
		if len(wrong) == 0 {
			return
		}
		l := audit.Note(p, newLog)
		trains, predicts := false, false
		for _, s := range l.calls {
			trains, predicts = trains || s.name == "backward", predicts || s.name == "eval"
		}
		for _, s := range l.calls {
			if s.name == "backward" || s.name == "eval" {
				continue
			}
			f := audit.Finding{Sure: false, Hint: "train with torchvision 0.29 (PyTorch 2.14) or later, or on the CPU",
				Text: fmt.Sprintf("where %s is trained on MPS in torch %s: %s", s.name, p.Target.Torch.Version,
					wrong[0].Wrong), Source: wrong[0].Source}
			if predicts && !trains {
				f.Severity = audit.Notice
			}
			p.Report(s.at, f)
		}
	}}
