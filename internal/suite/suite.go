// Package suite knows what became of each test of a suite on a device: on the double of a release of PyTorch's MPS, on
// a real one, or on the CPU. docs/formats/suite.md describes the file.
package suite

// Version of the file; a reader refuses another.
const Version = 1

// Name of the file in the folder of a result.
const Name = "suite.json"

// Outcome is what became of a test.
type Outcome string

// The outcomes, in pytest's words, and three that pytest has no word for.
const (
	Passed  Outcome = "passed"
	Failed  Outcome = "failed" // in its call, or in a fixture: Test.Phase says where
	Skipped Outcome = "skipped"
	XFailed Outcome = "xfailed"
	XPassed Outcome = "xpassed"
	Ended   Outcome = "ended"   // the process ended during the test: Test.Text says how
	Hung    Outcome = "hung"    // no end within the limit
	NotRun  Outcome = "not run" // collected, and then the run was over
)

// Collecting is the phase of a module that could not be collected: it stands among the tests, by its path, since which
// tests it has nobody knows.
const Collecting = "collect"

// Result is what one command of a suite came to, on one or several devices.
type Result struct {
	Version int      `json:"suite"`
	Assay   string   `json:"assay"`            // version of assay
	Command []string `json:"command"`          // as typed after --, secrets taken out
	Folder  string   `json:"folder"`           // pytest's rootdir, from the top of its repository; "" where it is that
	Commit  string   `json:"commit,omitempty"` // of the repository; -dirty behind it where files were changed
	Runs    []Run    `json:"runs"`             // in the order asked for
}

// Run is the suite on one device.
type Run struct {
	On        string  `json:"on"`        // double, mps, cuda, cpu
	Torch     string  `json:"torch"`     // the release that was aimed at, as 2.8.0
	Installed string  `json:"installed"` // torch.__version__ of the interpreter, as it says itself without the double
	Dir       string  `json:"dir"`       // the run's folder; "" where it was not kept
	Missing   string  `json:"missing"`   // why not all tests ran; "" where they did
	Status    int     `json:"status"`    // pytest's own
	Seconds   float64 `json:"seconds"`
	Tests     []Test  `json:"tests"` // by ID
}

// Test is what became of one test in a run.
type Test struct {
	ID      string  `json:"id"` // as pytest names it, xdist's @group taken off
	Outcome Outcome `json:"outcome"`
	Phase   string  `json:"phase,omitempty"` // setup, call or teardown, of one that failed; Collecting
	Error   string  `json:"error,omitempty"` // class of the exception, without its module: RuntimeError
	Text    string  `json:"text,omitempty"`  // its message, at most 1,000 characters
	// Operator and Cause are of the device's refusal behind a failure (evidence.Refusal); "" where none was met.
	Operator string `json:"op,omitempty"`
	Cause    string `json:"cause,omitempty"`
	// How is raised where the exception is the refusal or came of it, met where it was met during the test.
	How   string `json:"how,omitempty"`
	Where string `json:"where,omitempty"` // the user's file:line at which it was raised, from rootdir
	Line  int    `json:"line,omitempty"`  // of the test function, in the file that ID names
	// CPU is the outcome on the CPU of a test that did not pass here; "" where that is not known.
	CPU Outcome `json:"cpu,omitempty"`
	// Device says whether the test had a tensor on the device: one that had none says nothing about it.
	Device bool `json:"device"`
	// Wrong are operators with a known wrong result that the test called, each as the knowledge names it: it may have
	// passed for other values alone.
	Wrong   []string `json:"wrong,omitempty"`
	Marks   []Mark   `json:"marks,omitempty"` // mps and mps_xfail, as the test carries them
	Seconds float64  `json:"seconds"`
}

// Mark is a test's mark mps_xfail(op=…, until=…) or mps(min_torch=…).
type Mark struct {
	Name     string `json:"name"`
	Operator string `json:"op,omitempty"`
	Until    string `json:"until,omitempty"`     // first release on which it passes
	MinTorch string `json:"min_torch,omitempty"` // first release that it is for
}

// Bad says that a test did not do what it should on this device, and did on the CPU or is not known not to have.
func (t *Test) Bad() bool { return t.Outcome.fails() && !t.CPU.fails() }

// fails says of a test that was run whether it did not do what it should.
func (o Outcome) fails() bool { return o == Failed || o == Ended || o == Hung }
