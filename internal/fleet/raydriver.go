package fleet

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"assay/agent"
	"assay/internal/fault"
	"assay/internal/node"
	"assay/internal/text"
)

// What is said to ray_driver.py, a line of JSON each with one of these set.
type rayRequest struct {
	Hello *rayHello `json:"hello,omitempty"`
	Start *rayStart `json:"start,omitempty"`
	Stop  *rayStop  `json:"stop,omitempty"`
	Kill  *rayName  `json:"kill,omitempty"` // nothing is heard of it: Ray is to end its process
	Home  *rayName  `json:"home,omitempty"` // all of it is here: the node may forget it
	Blob  *rayBlob  `json:"blob,omitempty"`
}

type rayHello struct {
	Version   int      `json:"version"`
	Agent     string   `json:"agent"` // folder that assay_agent lies in
	Address   string   `json:"address"`
	Name      string   `json:"name"`
	Resources []string `json:"resources"` // of each a run that takes a GPU has 1
	Lease     float64  `json:"lease"`
	Insecure  bool     `json:"insecure"`
}

type rayStart struct {
	Job node.Job `json:"job"`
}

type rayStop struct {
	Name    string `json:"name"`
	Why     string `json:"why"`
	Pending bool   `json:"pending"` // Ray has not begun it, as far as is known
}

type rayName struct {
	Name string `json:"name"`
}

// rayBlob is where a file lies that a node wants: the program for its system, or a snapshot of code.
type rayBlob struct {
	Blob string `json:"blob"`
	RayFile
	Error string `json:"error,omitempty"`
}

// RayFile is a file that goes to the nodes.
type RayFile struct {
	Path    string `json:"path"`
	Sum     string `json:"sum"`  // SHA-256, hexadecimal
	Size    int64  `json:"size"` // bytes
	Version string `json:"version,omitempty"`
}

// What it says: one of these, and behind the line Body raw bytes.
type rayAnswer struct {
	Body    int         `json:"body"`
	Hello   *rayWelcome `json:"hello"`
	Trouble *rayTrouble `json:"trouble"`
	Nodes   *rayWelcome `json:"nodes"`
	Want    *rayBlob    `json:"want"`
	Begin   *rayBegin   `json:"begin"`
	Beat    *rayName    `json:"beat"`
	State   *rayState   `json:"state"`
	Data    *rayData    `json:"data"`
	Ended   *rayState   `json:"ended"`
	Over    *rayOver    `json:"over"`
	body    []byte
}

type rayWelcome struct {
	Version int       `json:"version"`
	Ray     string    `json:"ray"`
	Python  string    `json:"python"`
	Open    bool      `json:"open"` // it asks for no token
	Nodes   []rayNode `json:"nodes"`
}

type rayNode struct {
	Host    string `json:"host"`
	Address string `json:"address"`
	Alive   bool   `json:"alive"`
	Amount  int    `json:"amount"` // runs that its resources are enough for
}

type rayTrouble struct {
	Kind string `json:"kind"` // import, unreachable, open, token, version, connect, protocol, lost
	Text string `json:"text"`
}

type rayBegin struct {
	Name    string `json:"name"`
	Host    string `json:"host"`
	Address string `json:"address"`
	System  string `json:"system"`
}

type rayState struct {
	Name  string           `json:"name"`
	State node.State       `json:"state"`
	Files map[string]int64 `json:"files"` // of one that ended: what was sent of each
}

type rayData struct {
	Name string `json:"name"`
	File string `json:"file"`
	At   int64  `json:"at"`
}

// rayOver is that Ray is done with a task. One that did all that it should says "" for both.
type rayOver struct {
	Name string `json:"name"`
	Kind string `json:"kind"` // of Ray's error
	Why  string `json:"why"`
}

const (
	rayVersion = 1
	// rayConnect is how long the driver may take until it has said hello: importing Ray from a cold disk, and Ray's own
	// attempts to connect.
	rayConnect = 3 * time.Minute
	// rayEnd is how long a driver that is let go of may take to end.
	rayEnd = 20 * time.Second
	// rayLine bounds a line of the driver's, bytes.
	rayLine = 4 << 20
)

// rayDriver is the process of ray_driver.py.
type rayDriver struct {
	cmd     *exec.Cmd
	in      *json.Encoder
	stdin   io.Closer
	answers chan rayAnswer // closed when it says no more
	ended   chan struct{}
	how     error
	broken  error // what it said cannot be read
	said    *text.Tail
	let     sync.Once
}

// startRay starts the driver and tells it where the cluster is.
func (e *Ray) startRay(hello rayHello) (*rayDriver, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	d := &rayDriver{answers: make(chan rayAnswer, 64), ended: make(chan struct{}), said: &text.Tail{Limit: 4 << 10}}
	d.cmd = exec.Command(e.Python, e.Program)
	d.cmd.ExtraFiles, d.cmd.WaitDelay = []*os.File{write}, rayEnd
	d.cmd.Stdout, d.cmd.Stderr = d.said, d.said
	// a group of its own: an interrupt of the terminal's is assay's
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	for _, v := range e.Environ {
		switch name, _, _ := strings.Cut(v, "="); name {
		case agent.Variable, "RAY_ADDRESS": // the second would send it to another cluster
		default:
			d.cmd.Env = append(d.cmd.Env, v)
		}
	}
	stdin, err := d.cmd.StdinPipe()
	if err == nil {
		d.stdin, d.in = stdin, json.NewEncoder(stdin)
		err = d.cmd.Start()
	}
	write.Close()
	if err != nil {
		read.Close()
		return nil, fmt.Errorf("start %s: %w", e.Python, err)
	}
	go func() {
		d.how = d.cmd.Wait()
		close(d.ended)
	}()
	go func() {
		defer read.Close()
		defer close(d.answers)
		d.broken = d.listen(bufio.NewReaderSize(read, 64<<10))
	}()
	d.ask(rayRequest{Hello: &hello})
	return d, nil
}

// ask says something. That nobody reads it any more is seen where answers are read.
func (d *rayDriver) ask(r rayRequest) { _ = d.in.Encode(r) }

// listen hands on what it says, until it says no more. An error is what departs from the form.
func (d *rayDriver) listen(in *bufio.Reader) error {
	for {
		line, err := rayReadLine(in)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var a rayAnswer
		if err := json.Unmarshal(line, &a); err != nil {
			return fmt.Errorf("the answer of Ray's driver cannot be read: %w", err)
		}
		if a.Body < 0 || a.Body > node.MaxBody {
			return fmt.Errorf("an answer of Ray's driver has %d bytes behind it, and %d is the most", a.Body, node.MaxBody)
		}
		if a.Body > 0 {
			a.body = make([]byte, a.Body)
			if _, err := io.ReadFull(in, a.body); err != nil {
				return nil // it ended within
			}
		}
		d.answers <- a
	}
}

func rayReadLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > rayLine:
			return nil, fmt.Errorf("a line of Ray's driver is longer than %d bytes", rayLine)
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil: // a part of a line is none
			return nil, io.EOF
		default:
			return line, nil
		}
	}
}

// close lets the driver go: it ends, and Ray ends its tasks.
func (d *rayDriver) close() {
	d.let.Do(func() {
		d.stdin.Close()
		go func() { // what it still says is nobody's
			for range d.answers {
			}
		}()
		select {
		case <-d.ended:
		case <-time.After(rayEnd):
			_ = d.cmd.Process.Kill()
			<-d.ended
		}
	})
}

// died is why a driver that says no more does not.
func (d *rayDriver) died() error {
	d.close()
	if d.how != nil {
		return fmt.Errorf("the driver of Ray ended (%w): %s", d.how, or(d.said.Last(1), "it said nothing"))
	}
	return errors.New("the driver of Ray ended")
}

// errRayAgain is of an end of the driver after which another may do better.
var errRayAgain = errors.New("the connection with Ray was lost")

// trouble is the error for what the driver says that keeps it from going on.
func (e *Ray) trouble(t rayTrouble) error {
	why := text.Short(t.Text, 600)
	on := "ray://" + e.Address
	err := fmt.Errorf("reach %s: %s", on, why)
	switch t.Kind {
	case "import":
		return fault.Hint(fmt.Errorf("%s has no Ray: %s", e.Python, why),
			"name an interpreter that has the cluster's Ray: --ray-python PATH; pip install 'ray[client]'")
	case "unreachable":
		return fault.Hint(err, "the port is the one of Ray Client, 10001 unless the head was started with "+
			"--ray-client-server-port; the head needs ray[client] or ray[default]")
	case "open":
		err := fmt.Errorf("%s asks for no token: whoever reaches that port runs programs as the user that Ray runs as, on "+
			"every node", on)
		return fault.Hint(err, "start every node with RAY_AUTH_MODE=token and one token (ray get-auth-token --generate), and "+
			"have it here in ~/.ray/auth_token; or insist: --insecure-ray")
	case "token":
		return fault.Hint(err, "have the cluster's token here in ~/.ray/auth_token or in $RAY_AUTH_TOKEN")
	case "version":
		return fault.Hint(err, "client and cluster need the same Ray and the same Python, as 3.11: --ray-python PATH names "+
			"another interpreter")
	case "connect":
		return fault.Hint(err, "see ray_client_server_*.err in the head's /tmp/ray/session_latest/logs")
	case "lost":
		return fmt.Errorf("%w: %s", errRayAgain, why)
	}
	return err
}
