package fold

import (
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
	ops, err := ReadTrace(strings.NewReader(handTrace))
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
		if _, err := ReadTrace(strings.NewReader(text)); err == nil {
			t.Errorf("no error for %.30q", text)
		}
	}
}
