package fold

import (
	"strings"
	"testing"
	"time"

	"assay/internal/evidence"
	"assay/internal/target"
)

// newRehearsal is a stream of a run on the double, up to where torch has been imported.
func newRehearsal() *stream {
	s := &stream{f: New(), parts: [6]int64{1, 2, 3, 4, 5, 5}}
	s.own("start", StartEvent{ID: "test", Wall: time.Unix(1000, 0), Target: target.Target{Device: "double"},
		Subject: evidence.Subject{Kind: "script", Dir: "/home/u/p"},
		Double: &target.Settings{Release: "2.8.0", Series: [2]int{2, 8}, MacOS: target.MacOS{15, 0},
			Chip: "m3-ultra-96gb", ChipName: "Apple M3 Ultra", Memory: 96 << 30,
			Cores: 80, Installed: "2.15.0+cpu", Assumed: []string{"macOS 15, since --macos names none"}}})
	s.send(1, map[string]any{"ev": "hello", "version": 1, "pid": 7, "python": "3.12.1", "wall": 1000.0, "clock": 0})
	s.send(1, map[string]any{"ev": "torch", "version": "2.15.0+cpu"})
	return s
}

// TestRehearsal: the lines of a rehearsed run, as the agent sends them.
func TestRehearsal(t *testing.T) {
	s := newRehearsal()
	for _, line := range []string{
		`{"ev":"double","release":"2.8.0","installed":"2.15.0+cpu","macos":[15,0],"chip":"m3-ultra-96gb","memory":103079215104,"recommended":77309411328,"recommended_known":"observed","limits":["time"]}`,
		`{"ev":"device","type":"mps"}`,
		`{"ev":"ops","rows":[{"op":"aten::mm","n":1,"state":"N","cpu_ns":1}]}`, // totals: the later row stands
		`{"ev":"ops","rows":[{"op":"aten::mm","n":90,"state":"N","cpu_ns":6000000000,"flops":3e9},{"op":"aten::grid_sampler_3d","n":10,"state":"-","cpu_ns":2000000000,"flops":1e9}]}`,
		`{"ev":"fallback","operator":"aten::grid_sampler_3d","where":"/home/u/p/net.py:3","via":"","count":1,"source":"warning","text":"…"}`,
		`{"ev":"fallback_op","op":"aten::grid_sampler_3d","where":"/home/u/p/net.py:3","n":4,"cpu_ns":1,"bytes":2}`,
		`{"ev":"fallback_op","op":"aten::grid_sampler_3d","where":"/home/u/p/net.py:3","n":10,"cpu_ns":2000000000,"bytes":4096}`,
		`{"ev":"refused","op":"aten::_to_copy","cause":"dtype","error":"TypeError","text":"Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64. Please use float32 instead.","where":"/home/u/p/train.py:9","n":2}`,
		`{"ev":"refused","op":"aten::_cummax_helper","cause":"missing","error":"NotImplementedError","text":"The operator 'aten::_cummax_helper' is not currently implemented for the MPS device.","where":"/home/u/p/train.py:12","n":1}`,
		`{"ev":"note","op":"aten::index.Tensor","kind":"wrong","text":"an index out of range is not noticed","where":"/home/u/p/train.py:13","n":5}`,
		`{"ev":"syncs","rows":[["Tensor.item","/home/u/p/train.py:20","",20,1000,true,20]]}`,
	} {
		s.f.Add(1, []byte(line))
	}
	s.send(1, map[string]any{"ev": "loader", "id": 1, "dataset": "D", "batch": 16, "batches": 10})
	s.steps(1, 1, 10, 0, plainSteps)
	s.steps(2, 11, 10, 200, plainSteps)
	s.own("host", HostEvent{Sample: &evidence.Sample{At: 1, Figures: []evidence.Figure{evidence.Known("gpu.busy", .9,
		"ratio", evidence.Measured)}}})
	s.send(1, map[string]any{"ev": "error", "type": "NotImplementedError",
		"text":  "The operator 'aten::_cummax_helper' is not currently implemented for the MPS device.",
		"where": "/home/u/p/train.py:12"})
	run := s.f.Finish()

	for _, name := range []string{"step.time", "split.h2d", "share.backward", "epoch.estimate", "memory.live.peak",
		"run.time"} {
		if fig := run.Figure(name); !fig.Known() || fig.Basis != map[bool]evidence.Basis{false: evidence.Rehearsed,
			true: evidence.Derived}[name == "epoch.estimate"] || fig.Unit == "s" &&
			!strings.Contains(fig.Note, "nothing about the Mac") {
			t.Errorf("%s: %+v", name, fig)
		}
	}
	want(t, run, "step.time", 0.020)
	want(t, run, "split.backward", 0.004)
	want(t, run, "fallback.calls", 0.1)
	want(t, run, "fallback.time", 0.25)
	want(t, run, "fallback.flops", 0.25)
	want(t, run, "memory.watermark", 5000.0/77309411328)
	wantUnknown(t, run, "gpu.busy.mean", "no GPU")
	wantUnknown(t, run, "step.time.synchronised", "double")
	if d := run.Target.Double; d == nil || d.Release != "2.8.0" || d.MacOS != "15" || d.Chip != "Apple M3 Ultra" ||
		*d.Recommended != 77309411328 || d.Ground != "observed" || len(d.Limits) != 1 {
		t.Errorf("double %+v", d)
	}
	if len(run.Fallbacks) != 1 || run.Fallbacks[0].Count != 10 || *run.Fallbacks[0].Share != 0.25 ||
		run.Fallbacks[0].Where != "net.py:3" ||
		!strings.HasPrefix(run.Fallbacks[0].Note, "native from torch 2.9 on, with wrong results") {
		t.Errorf("fallbacks %+v", run.Fallbacks)
	}
	if r := run.Rehearsal.Refusals; len(r) != 2 || r[0].Ended || r[0].Count != 2 ||
		!strings.Contains(r[0].Remedy, "float32") || !r[1].Ended || !strings.Contains(r[1].Remedy,
		"PYTORCH_ENABLE_MPS_FALLBACK=1") {
		t.Errorf("refusals %+v", run.Rehearsal.Refusals)
	}
	for name, sev := range map[string]evidence.Severity{"rehearsed": evidence.Note, "other-release": evidence.Warning,
		"fallback": evidence.Warning, "refused-missing": evidence.Error,
		"refused-dtype": evidence.Warning, "remark-wrong": evidence.Warning, "synchronisation": evidence.Note} {
		if f := finding(run, name); f == nil || f.Severity != sev {
			t.Errorf("finding %s: %+v", name, f)
		}
	}
	for _, name := range []string{"other-device", "data-wait", "not-rehearsed", "device-unused"} {
		if f := finding(run, name); f != nil {
			t.Errorf("finding %+v", f)
		}
	}
}

// TestRehearsalOfShapes: without data no operator computes, so that there is no share of its time; `assay try` says the
// same.
func TestRehearsalOfShapes(t *testing.T) {
	s := newRehearsal()
	s.f.start.Double.ShapeOnly = true
	for _, line := range []string{
		`{"ev":"double","release":"2.8.0","installed":"2.8.0+cpu","macos":[15,0],"chip":"m3-ultra-96gb","memory":103079215104,"recommended":null,"recommended_known":"","limits":[]}`,
		`{"ev":"ops","rows":[{"op":"aten::mm","n":90,"state":"N","cpu_ns":6000000000},{"op":"aten::grid_sampler_3d","n":10,"state":"-","cpu_ns":2000000000}]}`,
		`{"ev":"fallback_op","op":"aten::grid_sampler_3d","where":"/home/u/p/net.py:3","n":10,"cpu_ns":2000000000,"bytes":4096}`,
	} {
		s.f.Add(1, []byte(line))
	}
	s.steps(1, 1, 20, 0, plainSteps)
	run := s.f.Finish()
	want(t, run, "fallback.calls", 0.1)
	wantUnknown(t, run, "fallback.time", "shapes alone")
	if len(run.Fallbacks) != 1 || run.Fallbacks[0].Share != nil {
		t.Errorf("fallbacks %+v", run.Fallbacks)
	}
}

// TestRehearsalOnCPU: a script that chose another device has rehearsed nothing, and is told so.
func TestRehearsalOnCPU(t *testing.T) {
	s := newRehearsal()
	s.f.Add(1, []byte(`{"ev":"double","release":"2.8.0","installed":"2.8.0+cpu","macos":[15,0],"chip":"m3-ultra-96gb","memory":103079215104,"recommended":null,"recommended_known":"","limits":[]}`))
	s.send(1, map[string]any{"ev": "device", "type": "cpu"})
	s.steps(1, 1, 20, 0, plainSteps)
	run := s.f.Finish()
	if f := finding(run, "other-device"); f == nil || !strings.Contains(f.Text, "on cpu") {
		t.Errorf("findings %+v", run.Findings)
	}
	if f := finding(run, "other-release"); f != nil {
		t.Errorf("2.8.0+cpu is 2.8.0: %+v", f)
	}
	if finding(run, "memory-unlimited") == nil {
		t.Error("nothing is said of the limit that is not known")
	}
	wantUnknown(t, run, "fallback.calls", "no operator")
}

// TestNoDouble: figures of a run whose double was not put in are this machine's, and the evidence is incomplete.
func TestNoDouble(t *testing.T) {
	s := newRehearsal()
	s.send(1, map[string]any{"ev": "trouble", "what": "double not installed: no table"})
	s.send(1, map[string]any{"ev": "device", "type": "cpu"})
	s.steps(1, 1, 20, 0, plainSteps)
	run := s.f.Finish()
	if f := finding(run, "not-rehearsed"); f == nil || f.Severity != evidence.Error ||
		!strings.Contains(f.Text, "no table") {
		t.Errorf("%+v", f)
	}
	if fig := run.Figure("step.time"); fig.Basis != evidence.Measured {
		t.Errorf("%+v", fig)
	}
	if run.Rehearsal != nil || run.Target.Double == nil || run.Outcome.Complete ||
		!strings.Contains(run.Outcome.Reason, "double was not put in") {
		t.Errorf("rehearsal %+v, outcome %+v", run.Rehearsal, run.Outcome)
	}
}

// TestSharesByCause: which part of the calls, of the operations and of the time was refused or comes out wrong; what
// the double cannot know is unknown, and refusals of Python's functions count as calls.
func TestSharesByCause(t *testing.T) {
	rehearse := func(ops, refusals string, wholes string) *evidence.Run {
		s := newRehearsal()
		s.f.Add(1, []byte(`{"ev":"double","release":"2.8.0","installed":"2.15.0+cpu","macos":[15,0],"chip":"m1-16gb","memory":17179869184,"recommended":null,"recommended_known":"declared","limits":[]}`))
		s.f.Add(1, []byte(`{"ev":"ops","rows":[`+ops+`]`+wholes+`}`))
		if refusals != "" {
			s.f.Add(1, []byte(refusals))
		}
		return s.f.Finish()
	}
	const counted = `,"wrong_wholes":0`
	mm := `{"op":"aten::mm","n":90,"state":"N","cpu_ns":6000000000,"flops":6e9,"wrong":9,"wrong_ns":3000000000,"wrong_flops":1.5e9}`
	bmm := `{"op":"aten::bmm","n":10,"state":"N","cpu_ns":2000000000,"flops":0,"refused":10,"refused_flops":2e9}`
	refused := `{"ev":"refused","op":"aten::bmm","cause":"dtype","error":"TypeError","text":"x","where":"","n":10}`

	run := rehearse(mm+","+bmm, refused, counted)
	want(t, run, "refused.calls", 0.1)
	want(t, run, "refused.flops", 0.25)
	wantUnknown(t, run, "refused.time", "takes no time")
	want(t, run, "wrong.calls", 0.09)
	want(t, run, "wrong.flops", 0.25)
	want(t, run, "wrong.time", 0.375)

	run = rehearse(mm, "", counted)
	want(t, run, "refused.calls", 0)
	want(t, run, "refused.flops", 0)
	want(t, run, "refused.time", 0)

	// ten refusals of a function of Python's, beside 90 calls
	run = rehearse(mm, refused, counted)
	want(t, run, "refused.calls", 0.1)
	wantUnknown(t, run, "refused.flops", "which are no operators")
	run = rehearse(mm+","+strings.Replace(bmm, `,"refused_flops":2e9`, "", 1), refused, counted)
	wantUnknown(t, run, "refused.flops", "is not known")

	run = rehearse(mm, "", `,"wrong_wholes":10`)
	want(t, run, "wrong.calls", 0.19)
	wantUnknown(t, run, "wrong.flops", "10 calls are of functions")
	wantUnknown(t, run, "wrong.time", "10 calls are of functions")

	run = rehearse(mm, "", "")
	wantUnknown(t, run, "wrong.calls", "did not count")
	wantUnknown(t, run, "refused.calls", "did not count")
	wantUnknown(t, rehearse("", "", counted), "wrong.calls", "no operator was called")
}

// TestNeedsData: a call that shapes alone do not do for is no refusal of the device's. It is told apart, with what to
// do, and no share of what the device refuses counts it.
func TestNeedsData(t *testing.T) {
	s := newRehearsal()
	const text = "aten::nonzero needs the values of its tensors"
	for _, line := range []string{
		`{"ev":"double","release":"2.8.0","macos":[15,0],"chip":"m1-16gb","memory":17179869184,"recommended":null,"recommended_known":"","limits":[]}`,
		`{"ev":"ops","rows":[{"op":"aten::mm","n":10,"state":"N"}],"wrong_wholes":0}`,
		`{"ev":"refused","op":"aten::nonzero","cause":"values","error":"NotImplementedError","text":"` + text + `","where":"/home/u/p/net.py:3","n":1}`,
		`{"ev":"error","type":"NotImplementedError","text":"` + text + `","where":"/home/u/p/net.py:3"}`,
	} {
		s.f.Add(1, []byte(line))
	}
	run := s.f.Finish()
	if n := run.Rehearsal.NeedsData; len(n) != 1 || n[0].Operator != "aten::nonzero" || n[0].Where != "net.py:3" ||
		!n[0].Ended || !strings.Contains(n[0].Remedy, "without --shape-only") || len(run.Rehearsal.Refusals) != 0 {
		t.Errorf("%+v, refusals %+v", n, run.Rehearsal.Refusals)
	}
	want(t, run, "refused.calls", 0)
	var found bool
	for _, f := range run.Findings {
		found = found || f.Name == "needs-data" && f.Severity == evidence.Error &&
			strings.Contains(f.Text, "needs values")
		if strings.HasPrefix(f.Name, "refused-") || f.Name == "device-unused" {
			t.Errorf("finding %+v", f)
		}
	}
	if !found {
		t.Errorf("findings %+v", run.Findings)
	}
}

// TestAccount: the account of memory as the double tells it; one whose parts contradict one another is none.
func TestAccount(t *testing.T) {
	double := `{"ev":"double","release":"2.8.0","macos":[15,0],"chip":"m1-16gb","memory":17179869184,"recommended":null,"recommended_known":"","limits":[]}`
	good := `{"ev":"account","peak":5000,"allocated_peak":1000,"at":{"step":2,"phase":"backward"},"kinds":{"weights":100,"gradients":90,"optimizer":200,"activations":500,"workspace":60,"data":40,"other":10},"steady":390,"largest_buffer":80,"evaluated":true,"saved":false,"pieces":[{"what":"training step","peak":1000}],"batch":{"rows":32,"of":"tokens","length":100,"longest":512,"longest_seen_of":50,"items":50},"limits":{"recommended":7000,"source":{"recommended":"observed"}}}`
	told := func(lines ...string) *evidence.RehearsedMemory {
		s := newRehearsal()
		for _, line := range append([]string{double, `{"ev":"ops","rows":[{"op":"aten::mm","n":1,"state":"N","bytes":48}]}`},
			lines...) {
			s.f.Add(1, []byte(line))
		}
		run := s.f.Finish()
		if b := run.Rehearsal.Operators[0].Bytes; b == nil || *b != 48 {
			t.Errorf("bytes of an operator: %v", b)
		}
		return run.Rehearsal.Memory
	}
	if m := told(strings.Replace(good, `"weights":100`, `"weights":101`, 1), good); m == nil ||
		m.Kinds.Sum() != 1000 || m.AllocatedPeak != 1000 || m.At.Step != 2 || *m.Steady != 390 ||
		*m.Batch.Longest != 512 || m.Batch.Rows != 32 || !m.Evaluated || m.Pieces[0].Peak != 1000 ||
		*m.Limits.Recommended != 7000 || m.Limits.High != nil {
		t.Errorf("account %+v", m)
	}
	for _, bad := range []string{
		strings.Replace(good, `"weights":100`, `"weights":101`, 1),
		strings.Replace(strings.Replace(good, `"weights":100`, `"weights":-10`, 1), `"other":10`, `"other":120`, 1),
		strings.Replace(good, `"largest_buffer":80`, `"largest_buffer":-80`, 1),
		strings.Replace(good, `"peak":1000}]`, `"peak":-1}]`, 1),
		strings.Replace(good, `"longest":512`, `"longest":-512`, 1),
		strings.Replace(good, `"steady":390`, `"steady":-390`, 1),
		strings.Replace(good, `"recommended":7000`, `"recommended":-1`, 1),
	} {
		if m := told(bad); m != nil {
			t.Errorf("%s was taken: %+v", bad, m)
		}
	}
	if m := told(); m != nil {
		t.Errorf("nothing was told, and there is %+v", m)
	}
	many := strings.Replace(good, `"pieces":[`, `"pieces":[`+strings.Repeat(`{"what":"x","peak":1},`, 100), 1)
	if m := told(many); m == nil || len(m.Pieces) != piecesShown {
		t.Errorf("a hundred pieces: %+v", m)
	}
}

// TestPythonSide: what scripts asked of PyTorch's Python is said: a name that is gone by itself, who was told the
// version in one line.
func TestPythonSide(t *testing.T) {
	s := newRehearsal()
	for _, line := range []string{
		`{"ev":"double","release":"2.8.0","installed":"2.15.0+cpu","macos":[15,0],"chip":"m3-ultra-96gb","memory":103079215104,"recommended":null,"recommended_known":"","limits":[]}`,
		`{"ev":"note","op":"torch.symeig","kind":"python-gone","text":"PyTorch 2.8.0 has it","where":"/home/u/p/train.py:3","n":2}`,
		`{"ev":"note","op":"torch.__version__","kind":"told-version","text":"timm asked, and was told 2.8.0","where":"/lib/timm/a.py:1","n":1}`,
		`{"ev":"note","op":"torch.__version__","kind":"told-version","text":"einops asked, and was told 2.8.0","where":"/lib/einops/b.py:2","n":1}`,
		`{"ev":"note","op":"aten::index.Tensor","kind":"wrong","text":"an index out of range is not noticed","where":"/home/u/p/train.py:13","n":5}`,
	} {
		s.f.Add(1, []byte(line))
	}
	run := s.f.Finish()
	gone, told := finding(run, "python-gone"), finding(run, "told-version")
	if gone == nil || gone.Severity != evidence.Warning || gone.Where != "train.py:3" ||
		!strings.Contains(gone.Text, "torch.symeig: PyTorch 2.8.0 has it") {
		t.Errorf("gone: %+v", gone)
	}
	if told == nil || !strings.Contains(told.Text, "timm asked, and was told 2.8.0 at /lib/timm/a.py:1; einops asked") {
		t.Errorf("told: %+v", told)
	}
	if finding(run, "remark-wrong") == nil || finding(run, "remark-told-version") != nil {
		t.Errorf("remarks: %+v", run.Findings)
	}
}
