package fold

import (
	"fmt"
	"strings"
	"testing"
)

// A trace worked out by hand: on one thread linear (100 µs) calls addmm (60 µs) which calls empty (10 µs); addmm
// launches a kernel of 200 µs that starts 30 µs after its launch.
const handTrace = `{"schemaVersion": 1, "traceEvents": [
 {"ph":"X","cat":"cpu_op","name":"aten::linear","pid":1,"tid":1,"ts":1000,"dur":100,"args":{"External id":1}},
 {"ph":"X","cat":"cpu_op","name":"aten::empty","pid":1,"tid":1,"ts":1020,"dur":10,"args":{"External id":3}},
 {"ph":"X","cat":"cpu_op","name":"aten::addmm","pid":1,"tid":1,"ts":1010,"dur":60,"args":{"External id":2}},
 {"ph":"X","cat":"cpu_op","name":"aten::addmm","pid":1,"tid":2,"ts":1015,"dur":40,"args":{"External id":4}},
 {"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":1040,"dur":5,"args":{"External id":2,"correlation":77}},
 {"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":1070,"dur":200,"args":{"External id":2,"correlation":77}},
 {"ph":"X","cat":"kernel","name":"stray","pid":0,"tid":7,"ts":1400,"dur":3,"args":{"correlation":78}},
 {"ph":"i","name":"mark","ts":1},
 {"ph":"X","cat":"user_annotation","name":"step","pid":1,"tid":1,"ts":900,"dur":5000}
], "other": [1]}`

func TestReadTrace(t *testing.T) {
	ops, err := ReadTrace(strings.NewReader(handTrace), false)
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		calls                      int
		self, total, device, queue float64 // µs
	}
	want := map[string]row{
		"aten::linear": {1, 40, 100, -1, -1}, "aten::addmm": {2, 90, 100, 200, 30}, "aten::empty": {1, 10, 10, -1, -1},
		"(device work launched outside an operator)": {0, 0, 0, 3, 0},
	}
	near := func(a, b float64) bool { return a-b < 1e-6 && b-a < 1e-6 }
	for _, op := range ops {
		w := want[op.Name]
		delete(want, op.Name)
		device, queue := -1.0, -1.0
		if op.Device != nil {
			device, queue = *op.Device*1e6, *op.Queue*1e6
		}
		if op.Calls != w.calls || !near(op.Self*1e6, w.self) || !near(op.Total*1e6, w.total) ||
			!near(device, w.device) || !near(queue, w.queue) {
			t.Errorf("%+v (device %g, queue %g), want %+v", op, device, queue, w)
		}
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
	if ops[0].Name != "aten::addmm" {
		t.Errorf("first is %s", ops[0].Name)
	}
}

func TestReadTraceDamaged(t *testing.T) {
	for _, text := range []string{"", "[]", "{}", `{"traceEvents": 3}`, `{"traceEvents": [{]}`, handTrace[:400]} {
		if _, err := ReadTrace(strings.NewReader(text), false); err == nil {
			t.Errorf("no error for %.30q", text)
		}
	}
}

// TestReadTraceOfARehearsal: the double's own way is no operator. Worked out by hand: mm (100 µs) goes through the
// double (90 µs), which asks for a result type (10 µs, an empty of 4 µs in it) and computes mm (60 µs, an empty of 5 µs
// in it); silu has no mm of its own name below: the double composes it of sigmoid, which stays.
func TestReadTraceOfARehearsal(t *testing.T) {
	op := func(name string, at, dur int) string {
		return fmt.Sprintf(`{"ph":"X","cat":"cpu_op","name":%q,"pid":1,"tid":1,"ts":%d,"dur":%d}`, name, at, dur)
	}
	trace := `{"traceEvents":[` + strings.Join([]string{
		op("aten::mm", 1000, 100), op("PythonDispatchMode", 1005, 90), op("aten::result_type", 1010, 10),
		op("aten::empty", 1012, 4), op("aten::mm", 1025, 60), op("aten::empty", 1030, 5),
		op("aten::silu", 2000, 50), op("PythonDispatchMode", 2005, 40), op("aten::sigmoid", 2010, 30)}, ",") + `]}`
	rows := func(rehearsed bool) string {
		ops, err := ReadTrace(strings.NewReader(trace), rehearsed)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, o := range ops {
			all = append(all, fmt.Sprintf("%s %d %.0f/%.0f", o.Name, o.Calls, o.Self*1e6, o.Total*1e6))
		}
		return strings.Join(all, ", ")
	}
	want := "aten::mm 1 65/100, aten::sigmoid 1 30/30, aten::silu 1 10/50, aten::empty 1 5/5"
	if got := rows(true); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	// A mode of the script's own is the script's work.
	if got := rows(false); !strings.Contains(got, "PythonDispatchMode 2 30/130") ||
		!strings.Contains(got, "aten::mm 2 65/160") {
		t.Errorf("of a run on a device: %s", got)
	}
}
