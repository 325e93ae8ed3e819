package attempt

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"assay/internal/testkit"
)

// scenarioVariable makes this test binary play attempt.py, so that the other end of the wire can be tested without a
// Python.
const scenarioVariable = "ATTEMPT_SCENARIO"

func TestMain(m *testing.M) {
	if name := os.Getenv(scenarioVariable); name != "" {
		play(name)
	}
	os.Exit(testkit.Main(m))
}

// stand is the process that plays: what it was asked, and its end of the wire.
type stand struct {
	request request
	wire    *os.File
}

func play(name string) {
	s := &stand{wire: os.NewFile(3, "wire")}
	if err := json.NewDecoder(os.Stdin).Decode(&s.request); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(9)
	}
	scenarios[name](s)
	os.Exit(0)
}

func (s *stand) send(lines ...string) {
	for _, l := range lines {
		if _, err := s.wire.WriteString(l + "\n"); err != nil {
			os.Exit(8)
		}
	}
}

const hello = `{"answer":"hello","version":2,"torch":"2.15.0","python":"3.11.7"}`

// names are the models to be tried: those asked for, or those that the package of the scenarios has.
func (s *stand) names() []string {
	if len(s.request.Targets) > 0 {
		return s.request.Targets
	}
	return []string{"A", "B", "C"}
}

// begin says hello and offers the models.
func (s *stand) begin() {
	models, err := json.Marshal(s.names())
	if err != nil {
		panic(err)
	}
	s.send(hello, `{"answer":"offered","models":`+string(models)+`}`)
}

// told is an answer about a model that ran, changed by pairs of an old text and a new one.
func told(target string, changes ...string) string {
	const ran = `{"answer":"attempt","target":"TARGET","phase":"done","model":"Net","inputs":["2,3 float32"],` +
		`"parameters":6,"data":true,"backward":true,"seconds":0.5,"error":null,"refusal":null,"peak":0,"stand_ins":0,` +
		`"ops":[],"fallbacks":[],"met":[],"notes":[],"fallback":null}`
	line := strings.Replace(ran, "TARGET", target, 1)
	for i := 0; i+1 < len(changes); i += 2 {
		if !strings.Contains(line, changes[i]) {
			panic("told: no " + changes[i])
		}
		line = strings.Replace(line, changes[i], changes[i+1], 1)
	}
	return line
}

// raised is an answer about a model that raised in its forward pass.
func raised(target, kind, text string) string {
	e, err := json.Marshal(failurePart{kind, "RuntimeError", text, "net.py:7", ""})
	if err != nil {
		panic(err)
	}
	return told(target, `"phase":"done"`, `"phase":"forward"`, `"error":null`, `"error":`+string(e))
}

const done = `{"answer":"done"}`
