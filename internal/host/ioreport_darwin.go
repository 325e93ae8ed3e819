package host

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"
	"unsafe"
)

// report is libIOReport. The signatures are those that macmon, mactop and all-smi call it with; there is no header.
type report struct {
	channels  func(group, subgroup uintptr, a, b, c uint64) uintptr
	subscribe func(null, channels uintptr, out *uintptr, id uint64, options uintptr) uintptr
	samples   func(subscription, channels, null uintptr) uintptr
	delta     func(before, after, null uintptr) uintptr
	group     func(channel uintptr) uintptr
	subgroup  func(channel uintptr) uintptr
	name      func(channel uintptr) uintptr
	unit      func(channel uintptr) uintptr
	value     func(channel uintptr, i int32) int64
	states    func(channel uintptr) int32
	state     func(channel uintptr, i int32) uintptr
	residency func(channel uintptr, i int32) int64
}

var ioReport = sync.OnceValues(func() (*report, error) {
	lib, err := load("/usr/lib/libIOReport.dylib")
	if err != nil {
		return nil, err
	}
	r := &report{}
	return r, bind(lib,
		symbol{"IOReportCopyChannelsInGroup", &r.channels},
		symbol{"IOReportCreateSubscription", &r.subscribe}, symbol{"IOReportCreateSamples", &r.samples},
		symbol{"IOReportCreateSamplesDelta", &r.delta}, symbol{"IOReportChannelGetGroup", &r.group},
		symbol{"IOReportChannelGetSubGroup", &r.subgroup}, symbol{"IOReportChannelGetChannelName", &r.name},
		symbol{"IOReportChannelGetUnitLabel", &r.unit}, symbol{"IOReportSimpleGetIntegerValue", &r.value},
		symbol{"IOReportStateGetCount", &r.states}, symbol{"IOReportStateGetNameForIndex", &r.state},
		symbol{"IOReportStateGetResidency", &r.residency})
})

// darwinGPU is the real gpuReader.
type darwinGPU struct {
	k           *ioKit
	r           *report
	reportErr   error
	channels    uintptr
	sub         uintptr
	last        uintptr
	at          time.Time
	accelerator uint32
	connection  uint32 // to the SMC
	powerErr    error
}

func (*darwin) openGPU() (gpuReader, error) {
	k, err := openIOKit()
	if err != nil {
		return nil, err
	}
	g := &darwinGPU{k: k, accelerator: k.find("IOAccelerator", "")}
	g.reportErr = g.openReport()
	g.powerErr = g.openSMC()
	return g, nil
}

const channelsKey = "IOReportChannels"

// group copies the channels of a group: a dictionary, or 0 where this Mac has none. The caller frees it.
func (g *darwinGPU) group(group, subgroup string) uintptr {
	cf := g.k.cf
	name := cf.stringCreate(0, group, utf8)
	if name == 0 {
		return 0
	}
	defer cf.release(name)
	var sub uintptr
	if subgroup != "" {
		sub = cf.stringCreate(0, subgroup, utf8)
		defer cf.free(sub)
	}
	all := g.r.channels(name, sub, 0, 0, 0)
	if !cf.is(all, cf.dictType) {
		cf.free(all)
		return 0
	}
	return all
}

// openReport subscribes to the wanted channels of both groups. As macmon does, one dictionary is copied and its list of
// channels replaced, so that IOReportMergeChannels is not needed.
func (g *darwinGPU) openReport() (err error) {
	if g.r, err = ioReport(); err != nil {
		return err
	}
	cf := g.k.cf
	wanted := cf.arrayCreate(0, 0, cf.arrayCallbacks)
	key := cf.stringCreate(0, channelsKey, utf8)
	defer cf.free(wanted)
	defer cf.free(key)
	if wanted == 0 || key == 0 {
		return errors.New("CoreFoundation gave nothing")
	}
	count := 0
	for _, ask := range [][2]string{{groupGPU, subGPU}, {groupEnergy, ""}} {
		all := g.group(ask[0], ask[1])
		for _, c := range cf.items(cf.get(all, channelsKey)) {
			if subscribed(ask[0], cf.text(g.r.name(c))) {
				cf.arrayAppend(wanted, c)
				count++
			}
		}
		if g.channels == 0 && all != 0 {
			g.channels = cf.dictCopy(0, 0, all)
		}
		cf.free(all)
	}
	if g.channels == 0 || count == 0 {
		return errors.New("IOReport has neither GPU states nor energies: an Intel Mac or a virtual machine")
	}
	cf.dictSet(g.channels, key, wanted)
	var out uintptr
	if g.sub = g.r.subscribe(0, g.channels, &out, 0, 0); g.sub == 0 {
		return errors.New("IOReportCreateSubscription gave nothing")
	}
	return nil
}

func (g *darwinGPU) sample() (ioSample, error) {
	if g.reportErr != nil {
		return ioSample{}, g.reportErr
	}
	cf := g.k.cf
	taken := g.r.samples(g.sub, g.channels, 0)
	now := time.Now()
	if taken == 0 {
		return ioSample{}, errors.New("IOReportCreateSamples gave nothing")
	}
	before, began := g.last, g.at
	g.last, g.at = taken, now
	if before == 0 {
		return ioSample{}, errFirstSample
	}
	defer cf.release(before)
	d := g.r.delta(before, taken, 0)
	if d == 0 {
		return ioSample{}, errors.New("IOReportCreateSamplesDelta gave nothing")
	}
	defer cf.release(d)
	s := ioSample{seconds: now.Sub(began).Seconds()}
	for _, c := range cf.items(cf.get(d, channelsKey)) {
		ch := ioChannel{group: cf.text(g.r.group(c)), subgroup: cf.text(g.r.subgroup(c)), name: cf.text(g.r.name(c))}
		if !subscribed(ch.group, ch.name) {
			continue
		}
		if ch.group == groupGPU {
			for i := range min(max(g.r.states(c), 0), 256) {
				ch.states = append(ch.states, ioState{cf.text(g.r.state(c, i)), g.r.residency(c, i)})
			}
		} else {
			ch.unit, ch.value = cf.text(g.r.unit(c)), g.r.value(c, 0)
		}
		s.channels = append(s.channels, ch)
	}
	return s, nil
}

func (g *darwinGPU) statistics() (map[string]int64, error) {
	if g.accelerator == 0 {
		return nil, errors.New("no IOAccelerator")
	}
	d := g.k.ask(g.accelerator, "PerformanceStatistics")
	if d == 0 {
		return nil, keyMissing("IOAccelerator", "PerformanceStatistics")
	}
	defer g.k.cf.release(d)
	statistics := map[string]int64{}
	for _, key := range []string{"Device Utilization %", "In use system memory"} {
		if n, ok := g.k.cf.number(g.k.cf.get(d, key)); ok {
			statistics[key] = n
		}
	}
	return statistics, nil
}

func (g *darwinGPU) table() ([]byte, error) {
	pmgr := g.k.find("AppleARMIODevice", "pmgr")
	if pmgr == 0 {
		return nil, errors.New("no node pmgr")
	}
	defer g.k.release(pmgr)
	ref := g.k.ask(pmgr, "voltage-states9")
	defer g.k.cf.free(ref)
	if !g.k.cf.is(ref, g.k.cf.dataType) {
		return nil, keyMissing("pmgr", "voltage-states9")
	}
	at, n := g.k.cf.dataPointer(ref), g.k.cf.dataLength(ref)
	if at == nil || n <= 0 || n > 1<<16 {
		return nil, fmt.Errorf("pmgr voltage-states9: %d bytes", n)
	}
	return append([]byte(nil), unsafe.Slice((*byte)(at), n)...), nil
}

// The SMC is asked with one call of 80 bytes, in and out: key at 0, size of the value at 28 and its type at 32, result
// at 40, command at 42, value at 48. Reading needs no privilege, though a beta of macOS 27 refused to open it.
const (
	smcSize             = 80
	smcSelector         = 2
	smcInfo, smcRead    = 9, 5
	smcKey              = 'P'<<24 | 'S'<<16 | 'T'<<8 | 'R' // power of the whole machine
	smcFloat            = 'f'<<24 | 'l'<<16 | 't'<<8 | ' '
	ioReturnNotPermited = int32(-0x1ffffd1e) // 0xe00002e2
)

// openSMC connects to the service, which is matched as AppleSMC and named AppleSMCKeysEndpoint (macmon; older tools
// take the first AppleSMC).
func (g *darwinGPU) openSMC() error {
	s, err := libSystem()
	if err != nil {
		return err
	}
	if s.task == 0 {
		return errors.New("mach_task_self_ is not in this macOS")
	}
	err = errors.New("no SMC: a virtual machine")
	for _, at := range [][2]string{{"AppleSMC", "AppleSMCKeysEndpoint"}, {"AppleSMCKeysEndpoint", ""},
		{"AppleSMC", ""}} {
		service := g.k.find(at[0], at[1])
		if service == 0 {
			continue
		}
		code := g.k.open(service, s.task, 0, &g.connection)
		g.k.release(service)
		switch {
		case code == 0 && g.connection != 0:
			return nil
		case code == ioReturnNotPermited:
			err = errors.New("the SMC: not permitted")
		default:
			err = fmt.Errorf("open the SMC: code %#x", uint32(code))
		}
		g.connection = 0
	}
	return err
}

func (g *darwinGPU) callSMC(command byte, size uint32) ([]byte, error) {
	in, out := make([]byte, smcSize), make([]byte, smcSize)
	binary.LittleEndian.PutUint32(in, smcKey)
	binary.LittleEndian.PutUint32(in[28:], size)
	in[42] = command
	length := uintptr(smcSize)
	if code := g.k.call(g.connection, smcSelector, &in[0], smcSize, &out[0], &length); code != 0 {
		return nil, fmt.Errorf("ask the SMC: code %#x", uint32(code))
	}
	if out[40] != 0 {
		return nil, fmt.Errorf("the SMC has no PSTR (result %d)", out[40])
	}
	return out, nil
}

func (g *darwinGPU) systemPower() (float64, error) {
	if g.powerErr != nil {
		return 0, g.powerErr
	}
	info, err := g.callSMC(smcInfo, 0)
	if err != nil {
		return 0, err
	}
	if size, kind := binary.LittleEndian.Uint32(info[28:]), binary.LittleEndian.Uint32(info[32:]); size != 4 ||
		kind != smcFloat {
		return 0, fmt.Errorf("the SMC's PSTR has %d bytes of another type", size)
	}
	value, err := g.callSMC(smcRead, 4)
	if err != nil {
		return 0, err
	}
	watts := float64(math.Float32frombits(binary.LittleEndian.Uint32(value[48:])))
	if !(watts >= 0 && watts < 10000) {
		return 0, errors.New("the SMC's PSTR is no power")
	}
	return watts, nil
}

func (g *darwinGPU) close() {
	cf := g.k.cf
	cf.free(g.last)
	cf.free(g.sub)
	cf.free(g.channels)
	g.last, g.sub, g.channels = 0, 0, 0
	g.reportErr = errors.New("closed")
	if g.connection != 0 {
		g.k.close(g.connection)
		g.connection = 0
		g.powerErr = errors.New("closed")
	}
	if g.accelerator != 0 {
		g.k.release(g.accelerator)
		g.accelerator = 0
	}
}
