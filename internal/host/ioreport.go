package host

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// ioChannel is one channel of an IOReport delta. IOReport is private to macOS; what is known of it comes from tools
// that use it: vladkens/macmon, lablup/all-smi#424, metaspartan/mactop.
type ioChannel struct {
	group, subgroup, name, unit string
	value                       int64 // of a counter; math.MinInt64 is "none"
	states                      []ioState
}

type ioState struct {
	name  string
	ticks int64
}

// ioSample is what the channels gained in a window whose length was measured.
type ioSample struct {
	seconds  float64
	channels []ioChannel
}

const (
	groupEnergy = "Energy Model"
	groupGPU    = "GPU Stats"
	subGPU      = "GPU Performance States"
	channelGPU  = "GPUPH"
)

// subscribed says which channels are asked for. The whole energy group has 321 (M1 Ultra) to 364 (M5 Max) of them, and
// a sample of all costs 3–12 ms (all-smi#424).
func subscribed(group, name string) bool {
	switch group {
	case groupGPU:
		return name == channelGPU
	case groupEnergy:
		return gpuEnergy(name) || gpuEnergyOld(name) || cpuEnergy(name)
	}
	return false
}

// gpuEnergy is the channel stamped when it is sampled, in nJ.
func gpuEnergy(name string) bool { return name == "GPU Energy" }

// gpuEnergyOld matches GPU, GPU0 and GPU0_1: in mJ and published in steps, used where the other is missing. On Ultra
// chips the numbers are blocks and dies, to be summed.
func gpuEnergyOld(name string) bool {
	rest, ok := strings.CutPrefix(name, "GPU")
	return ok && strings.Trim(rest, "0123456789_") == "" && !strings.HasPrefix(rest, "_")
}

// cpuEnergy matches the end of the name: DIE_0_CPU Energy and DIE_1_CPU Energy of an Ultra are summed. To look for the
// words anywhere, or for "CPU", adds hundreds of channels: 106 W where 36 were meant (all-smi).
func cpuEnergy(name string) bool { return strings.HasSuffix(name, "CPU Energy") }

// joules of one unit of a channel. Units differ between channels of one group.
var joules = map[string]float64{"J": 1, "mJ": 1e-3, "uJ": 1e-6, "µJ": 1e-6, "nJ": 1e-9}

// energy sums the channels that match, in joules. coarse says that some came in mJ, which are published every 2 s or
// so.
func energy(s ioSample, match func(string) bool) (sum float64, coarse bool, err error) {
	found := false
	for _, c := range s.channels {
		if c.group != groupEnergy || !match(c.name) {
			continue
		}
		unit, ok := joules[strings.TrimSpace(c.unit)]
		if !ok {
			return 0, false, fmt.Errorf("energy channel %q has the unit %q", c.name, c.unit)
		}
		if c.value < 0 {
			return 0, false, fmt.Errorf("energy channel %q has no value", c.name)
		}
		found, coarse = true, coarse || unit >= 1e-3
		sum += float64(c.value) * unit
	}
	if !found {
		return 0, false, errors.New("no such energy channel")
	}
	return sum, coarse, nil
}

// wattMeter turns energies into power. mJ channels are published about every 2.1 s (M5 Max; twice as often on M1
// Ultra), so that only windows of 5 s and more divide to something: shorter ones are put together, and the last figure
// stands meanwhile.
type wattMeter struct {
	joules, seconds float64
	last            float64
	known           bool
}

const coarseWindow = 5 // seconds

var errCoarse = errors.New("needs 5 s: the chip publishes this energy in steps")

func (m *wattMeter) next(joules, seconds float64, coarse bool) (float64, error) {
	m.joules, m.seconds = m.joules+joules, m.seconds+seconds
	if m.seconds > 0 && (!coarse || m.seconds >= coarseWindow) {
		m.last, m.known = m.joules/m.seconds, true
		m.joules, m.seconds = 0, 0
	}
	if !m.known {
		return 0, errCoarse
	}
	return m.last, nil
}

// idleState are the names of states in which the GPU does nothing.
func idleState(name string) bool { return name == "OFF" || name == "IDLE" || name == "DOWN" }

// residency returns the share of the window in which the GPU was in an active state, and the ticks of those states in
// order.
func residency(s ioSample) (busy float64, active []float64, err error) {
	for _, c := range s.channels {
		if c.group != groupGPU || c.name != channelGPU {
			continue
		}
		var idle, work float64
		for _, st := range c.states {
			if st.ticks < 0 {
				return 0, nil, fmt.Errorf("state %q of %s went backwards", st.name, channelGPU)
			}
			if idleState(st.name) {
				idle += float64(st.ticks)
			} else {
				work += float64(st.ticks)
				active = append(active, float64(st.ticks))
			}
		}
		if idle+work == 0 {
			return 0, nil, fmt.Errorf("%s did not move", channelGPU)
		}
		return work / (idle + work), active, nil
	}
	return 0, nil, keyMissing("IOReport "+groupGPU, channelGPU)
}

// meanFrequency weighs the frequencies of the active states with their ticks, Hz. State names carry no frequency, so
// that the table must have one entry for each state.
func meanFrequency(active, table []float64) (float64, error) {
	if len(active) != len(table) {
		return 0, fmt.Errorf("%d active states and %d frequencies", len(active), len(table))
	}
	var ticks, sum float64
	for i, t := range active {
		ticks += t
		sum += t * table[i]
	}
	if ticks == 0 {
		return 0, errors.New("the GPU was idle")
	}
	return sum / ticks, nil
}

// parseVoltageStates decodes the property voltage-states9 of the pmgr node: pairs of u32, little-endian, of frequency
// in Hz and millivolts; zeros in front are no state. Other tables are in kHz, or hold periods (M1 Ultra): what is no
// GPU frequency in Hz is refused.
func parseVoltageStates(data []byte) ([]float64, error) {
	if len(data) == 0 || len(data)%8 != 0 || len(data) > 8*256 {
		return nil, fmt.Errorf("voltage-states: %d bytes are no table", len(data))
	}
	var table []float64
	for ; len(data) > 0; data = data[8:] {
		f := binary.LittleEndian.Uint32(data)
		if f == 0 && len(table) == 0 {
			continue
		}
		if f < 100e6 {
			return nil, fmt.Errorf("voltage-states: %d is no frequency in Hz", f)
		}
		table = append(table, float64(f))
	}
	if len(table) == 0 {
		return nil, errors.New("voltage-states: empty table")
	}
	return table, nil
}
