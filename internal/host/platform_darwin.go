package host

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"sync"
	"syscall"
	"unsafe"

	"github.com/ebitengine/purego"
	"golang.org/x/sys/unix"
)

func thisMachine() machine { return &macHost{r: &darwin{}} }

// darwin is the real macReader. Libraries, the notify token and the host's port are kept for the life of the process.
type darwin struct{}

func (*darwin) root() bool { return os.Geteuid() == 0 }

func (*darwin) tool(ctx context.Context, path string, args ...string) ([]byte, error) {
	return runTool(ctx, path, args...)
}

func (*darwin) sysctl(name string) ([]byte, error) { return unix.SysctlRaw(name) }

func (*darwin) processes() ([]process, error) {
	all, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil, fmt.Errorf("sysctl kern.proc.all: %w", err)
	}
	processes := make([]process, 0, len(all))
	for i := range all {
		k := &all[i]
		processes = append(processes, process{
			pid: int(k.Proc.P_pid), parent: int(k.Eproc.Ppid), group: int(k.Eproc.Pgid),
			start: uint64(k.Proc.P_starttime.Sec)*1e6 + uint64(k.Proc.P_starttime.Usec),
			name:  unix.ByteSliceToString(k.Proc.P_comm[:]),
		})
	}
	return processes, nil
}

func (*darwin) statfs(path string) (mount, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return mount{}, fmt.Errorf("statfs %s: %w", path, err)
	}
	local := s.Flags&unix.MNT_LOCAL != 0
	return mount{point: unix.ByteSliceToString(s.Mntonname[:]), kind: unix.ByteSliceToString(s.Fstypename[:]),
		from: unix.ByteSliceToString(s.Mntfromname[:]), local: &local}, nil
}

// load opens a library; most live only in the shared cache, where Dlopen finds them and stat does not.
func load(path string) (uintptr, error) {
	handle, err := purego.Dlopen(path, purego.RTLD_LAZY|purego.RTLD_GLOBAL)
	if err != nil || handle == 0 {
		return 0, fmt.Errorf("%s cannot be loaded", path)
	}
	return handle, nil
}

// symbol is a C function and the Go variable that will call it.
type symbol struct {
	name string
	fn   any
}

// bind looks the symbols up one by one; the first that is missing is the error, and nothing of the group is used then.
// RegisterFunc panics on a signature it cannot call: nobody has run this on a Mac, so that too is an error.
func bind(lib uintptr, symbols ...symbol) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("call by name: %v", p)
		}
	}()
	for _, s := range symbols {
		at, err := purego.Dlsym(lib, s.name)
		if err != nil || at == 0 {
			return fmt.Errorf("%s is not in this macOS", s.name)
		}
		purego.RegisterFunc(s.fn, at)
	}
	return nil
}

// libSystem

type system struct {
	rusage       uintptr // proc_pid_rusage, called with SyscallN for its errno
	pidpath      func(pid int32, buf *byte, size uint32) int32
	hostSelf     func() uint32
	statistics   func(host uint32, flavour int32, out *[4]uint32, count *uint32) int32
	timebase     func(info *[2]uint32) int32
	notify       func(name string, token *int32) uint32
	notifyState  func(token int32, state *uint64) uint32
	task         uint32  // mach_task_self_
	host         uint32  // a right for each call of mach_host_self: asked once
	tick         float64 // seconds of one unit of mach time
	token        int32
	notifyStatus uint32
}

var libSystem = sync.OnceValues(func() (*system, error) {
	lib, err := load("/usr/lib/libSystem.B.dylib")
	if err != nil {
		return nil, err
	}
	s := &system{}
	if err := bind(lib,
		symbol{"proc_pidpath", &s.pidpath}, symbol{"mach_host_self", &s.hostSelf},
		symbol{"host_statistics", &s.statistics},
		symbol{"mach_timebase_info", &s.timebase}, symbol{"notify_register_check", &s.notify},
		symbol{"notify_get_state", &s.notifyState}); err != nil {
		return nil, err
	}
	if s.rusage, err = purego.Dlsym(lib, "proc_pid_rusage"); err != nil || s.rusage == 0 {
		return nil, errors.New("proc_pid_rusage is not in this macOS")
	}
	if at, err := purego.Dlsym(lib, "mach_task_self_"); err == nil && at != 0 {
		s.task = **(**uint32)(unsafe.Pointer(&at)) // a variable, not a function
	}
	var base [2]uint32
	if s.timebase(&base) != 0 || base[1] == 0 {
		return nil, errors.New("mach_timebase_info failed")
	}
	s.tick = float64(base[0]) / float64(base[1]) / 1e9
	s.host = s.hostSelf()
	s.notifyStatus = s.notify(thermalName, &s.token)
	return s, nil
})

// Offsets of struct rusage_info_v4 and v6 (xnu, bsd/sys/resource.h). Times are in mach units there, not in nanoseconds.
const (
	rusageUser, rusageSystem     = 16, 24
	rusageResident, rusageFoot   = 64, 72
	rusagePeak                   = 240
	rusageFlavour6, rusageLength = 6, 464
	rusageFlavour4               = 4
)

func (*darwin) usage(pid int) (usage, error) {
	s, err := libSystem()
	if err != nil {
		return usage{}, err
	}
	buf := make([]byte, 2*rusageLength) // room for a kernel that knows more
	for _, flavour := range []uintptr{rusageFlavour6, rusageFlavour4} {
		result, _, errno := purego.SyscallN(s.rusage, uintptr(pid), flavour, uintptr(unsafe.Pointer(&buf[0])))
		if int32(result) == 0 {
			u64 := func(at int) float64 { return float64(binary.LittleEndian.Uint64(buf[at:])) }
			return usage{cpu: (u64(rusageUser) + u64(rusageSystem)) * s.tick, resident: u64(rusageResident),
				footprint: u64(rusageFoot), peak: u64(rusagePeak)}, nil
		}
		switch syscall.Errno(errno) {
		case syscall.EINVAL: // a flavour that this kernel lacks
			err = errors.New("proc_pid_rusage: no flavour that this macOS knows")
		case syscall.EPERM:
			return usage{}, fs.ErrPermission
		case syscall.ESRCH:
			return usage{}, os.ErrProcessDone
		default:
			return usage{}, fmt.Errorf("proc_pid_rusage: %w", syscall.Errno(errno))
		}
	}
	return usage{}, err
}

func (*darwin) executable(pid int) string {
	s, err := libSystem()
	if err != nil {
		return ""
	}
	var buf [4096]byte // PROC_PIDPATHINFO_MAXSIZE
	if n := s.pidpath(int32(pid), &buf[0], uint32(len(buf))); n <= 0 {
		return ""
	}
	return unix.ByteSliceToString(buf[:])
}

func (*darwin) cpuTicks() (ticks [4]uint32, err error) {
	s, err := libSystem()
	if err != nil {
		return ticks, err
	}
	const hostCPULoadInfo = 3 // osfmk/mach/host_info.h; user, system, idle, nice
	count := uint32(len(ticks))
	if code := s.statistics(s.host, hostCPULoadInfo, &ticks, &count); code != 0 || count != 4 {
		return ticks, fmt.Errorf("host_statistics: code %d", code)
	}
	return ticks, nil
}

func (*darwin) thermal() (uint64, error) {
	s, err := libSystem()
	if err != nil {
		return 0, err
	}
	if s.notifyStatus != 0 {
		return 0, fmt.Errorf("notify_register_check: status %d", s.notifyStatus)
	}
	var state uint64
	if status := s.notifyState(s.token, &state); status != 0 {
		return 0, fmt.Errorf("notify_get_state: status %d", status)
	}
	return state, nil
}

// Foundation

// lowPower asks [[NSProcessInfo processInfo] isLowPowerModeEnabled], macOS 12 and later.
func (*darwin) lowPower() (bool, error) {
	if _, err := load("/System/Library/Frameworks/Foundation.framework/Foundation"); err != nil {
		return false, err
	}
	lib, err := load("/usr/lib/libobjc.A.dylib")
	if err != nil {
		return false, err
	}
	var (
		class    func(name string) uintptr
		selector func(name string) uintptr
		send     func(object, selector uintptr) uintptr
		asks     func(object, selector, argument uintptr) bool
		yes      func(object, selector uintptr) bool
		push     func() uintptr
		pop      func(pool uintptr)
	)
	if err := bind(lib, symbol{"objc_getClass", &class}, symbol{"sel_registerName", &selector},
		symbol{"objc_msgSend", &send},
		symbol{"objc_msgSend", &asks}, symbol{"objc_msgSend", &yes}, symbol{"objc_autoreleasePoolPush", &push},
		symbol{"objc_autoreleasePoolPop", &pop}); err != nil {
		return false, err
	}
	runtime.LockOSThread() // an autorelease pool belongs to its thread
	defer runtime.UnlockOSThread()
	pool := push()
	defer pop(pool)
	processInfo := class("NSProcessInfo")
	if processInfo == 0 {
		return false, errors.New("no class NSProcessInfo")
	}
	info := send(processInfo, selector("processInfo"))
	if info == 0 {
		return false, errors.New("no process information")
	}
	enabled := selector("isLowPowerModeEnabled")
	if !asks(info, selector("respondsToSelector:"), enabled) {
		return false, errors.New("isLowPowerModeEnabled is not in this macOS")
	}
	return yes(info, enabled), nil
}

// CoreFoundation. References are uintptr; what "Copy" or "Create" returned is released, what "Get" returned is not.
// Each is compared with 0 before a call: CFRelease(NULL) and a wrong type end the process.

type foundation struct {
	stringCreate                                  func(allocator uintptr, s string, encoding uint32) uintptr
	stringGet                                     func(s uintptr, buf *byte, size int, encoding uint32) bool
	typeOf                                        func(ref uintptr) uintptr
	stringType, numberType, booleanType, dataType func() uintptr
	dictType, arrayType                           func() uintptr
	dictGet                                       func(d, key uintptr) uintptr
	dictCopy                                      func(allocator uintptr, capacity int, d uintptr) uintptr
	dictSet                                       func(d, key, value uintptr)
	arrayCount                                    func(a uintptr) int
	arrayAt                                       func(a uintptr, i int) uintptr
	arrayCreate                                   func(allocator uintptr, capacity int, callbacks uintptr) uintptr
	arrayAppend                                   func(a, value uintptr)
	numberGet                                     func(n uintptr, kind int, out *int64) bool
	booleanGet                                    func(b uintptr) bool
	dataPointer                                   func(d uintptr) unsafe.Pointer
	dataLength                                    func(d uintptr) int
	release                                       func(ref uintptr)
	arrayCallbacks                                uintptr // address of kCFTypeArrayCallBacks
}

const utf8 = 0x08000100 // kCFStringEncodingUTF8

var coreFoundation = sync.OnceValues(func() (*foundation, error) {
	lib, err := load("/System/Library/Frameworks/CoreFoundation.framework/CoreFoundation")
	if err != nil {
		return nil, err
	}
	c := &foundation{}
	if err := bind(lib,
		symbol{"CFStringCreateWithCString", &c.stringCreate}, symbol{"CFStringGetCString", &c.stringGet},
		symbol{"CFGetTypeID", &c.typeOf}, symbol{"CFStringGetTypeID", &c.stringType},
		symbol{"CFNumberGetTypeID", &c.numberType},
		symbol{"CFBooleanGetTypeID", &c.booleanType}, symbol{"CFDataGetTypeID", &c.dataType},
		symbol{"CFDictionaryGetTypeID", &c.dictType}, symbol{"CFArrayGetTypeID", &c.arrayType},
		symbol{"CFDictionaryGetValue", &c.dictGet}, symbol{"CFDictionaryCreateMutableCopy", &c.dictCopy},
		symbol{"CFDictionarySetValue", &c.dictSet}, symbol{"CFArrayGetCount", &c.arrayCount},
		symbol{"CFArrayGetValueAtIndex", &c.arrayAt}, symbol{"CFArrayCreateMutable", &c.arrayCreate},
		symbol{"CFArrayAppendValue", &c.arrayAppend}, symbol{"CFNumberGetValue", &c.numberGet},
		symbol{"CFBooleanGetValue", &c.booleanGet}, symbol{"CFDataGetBytePtr", &c.dataPointer},
		symbol{"CFDataGetLength", &c.dataLength}, symbol{"CFRelease", &c.release}); err != nil {
		return nil, err
	}
	if c.arrayCallbacks, err = purego.Dlsym(lib, "kCFTypeArrayCallBacks"); err != nil || c.arrayCallbacks == 0 {
		return nil, errors.New("kCFTypeArrayCallBacks is not in this macOS")
	}
	return c, nil
})

func (c *foundation) free(ref uintptr) {
	if ref != 0 {
		c.release(ref)
	}
}

// is reports whether a reference is there and of the type.
func (c *foundation) is(ref uintptr, kind func() uintptr) bool {
	return ref != 0 && c.typeOf(ref) == kind()
}

// get looks a key up in a dictionary; 0 where it is none or has none.
func (c *foundation) get(dict uintptr, key string) uintptr {
	if !c.is(dict, c.dictType) {
		return 0
	}
	k := c.stringCreate(0, key, utf8)
	if k == 0 {
		return 0
	}
	defer c.release(k)
	return c.dictGet(dict, k)
}

func (c *foundation) text(ref uintptr) string {
	var buf [512]byte
	if !c.is(ref, c.stringType) || !c.stringGet(ref, &buf[0], len(buf), utf8) {
		return ""
	}
	return unix.ByteSliceToString(buf[:])
}

func (c *foundation) number(ref uintptr) (int64, bool) {
	const int64Type = 4 // kCFNumberSInt64Type
	var v int64
	if !c.is(ref, c.numberType) || !c.numberGet(ref, int64Type, &v) {
		return 0, false
	}
	return v, true
}

// items is the content of an array, at most 8192 references, borrowed.
func (c *foundation) items(array uintptr) []uintptr {
	if !c.is(array, c.arrayType) {
		return nil
	}
	n := min(max(c.arrayCount(array), 0), 8192)
	items := make([]uintptr, 0, n)
	for i := range n {
		if item := c.arrayAt(array, i); item != 0 {
			items = append(items, item)
		}
	}
	return items
}

// IOKit

type ioKit struct {
	cf          *foundation
	matching    func(class string) uintptr
	services    func(port uint32, matching uintptr, iterator *uint32) int32
	next        func(iterator uint32) uint32
	property    func(entry uint32, key, allocator uintptr, options uint32) uintptr
	entryName   func(entry uint32, name *byte) int32 // of 128 bytes
	release     func(object uint32) int32
	open        func(service, task, kind uint32, connection *uint32) int32
	close       func(connection uint32) int32
	call        func(connection, selector uint32, in *byte, inSize uintptr, out *byte, outSize *uintptr) int32
	powerInfo   func() uintptr
	powerSource func(info uintptr) uintptr
	adapter     func() uintptr
}

var openIOKit = sync.OnceValues(func() (*ioKit, error) {
	cf, err := coreFoundation()
	if err != nil {
		return nil, err
	}
	lib, err := load("/System/Library/Frameworks/IOKit.framework/IOKit")
	if err != nil {
		return nil, err
	}
	k := &ioKit{cf: cf}
	return k, bind(lib,
		symbol{"IOServiceMatching", &k.matching}, symbol{"IOServiceGetMatchingServices", &k.services},
		symbol{"IOIteratorNext", &k.next}, symbol{"IORegistryEntryCreateCFProperty", &k.property},
		symbol{"IORegistryEntryGetName", &k.entryName}, symbol{"IOObjectRelease", &k.release},
		symbol{"IOServiceOpen", &k.open},
		symbol{"IOServiceClose", &k.close}, symbol{"IOConnectCallStructMethod", &k.call},
		symbol{"IOPSCopyPowerSourcesInfo", &k.powerInfo}, symbol{"IOPSGetProvidingPowerSourceType", &k.powerSource},
		symbol{"IOPSCopyExternalPowerAdapterDetails", &k.adapter})
})

// find returns the first service of a class, with that name where one is given. The caller releases it; 0 is none.
func (k *ioKit) find(class, name string) uint32 {
	m := k.matching(class) // consumed by the next call
	if m == 0 {
		return 0
	}
	var iterator uint32
	if k.services(0, m, &iterator) != 0 || iterator == 0 {
		return 0
	}
	defer k.release(iterator)
	for range 256 {
		entry := k.next(iterator)
		if entry == 0 {
			return 0
		}
		var buf [128]byte
		if name == "" || k.entryName(entry, &buf[0]) == 0 && unix.ByteSliceToString(buf[:]) == name {
			return entry
		}
		k.release(entry)
	}
	return 0
}

// ask copies a property of an entry; the caller frees it.
func (k *ioKit) ask(entry uint32, key string) uintptr {
	if entry == 0 {
		return 0
	}
	s := k.cf.stringCreate(0, key, utf8)
	if s == 0 {
		return 0
	}
	defer k.cf.release(s)
	return k.property(entry, s, 0, 0)
}

func (*darwin) gpuCores() (int64, error) {
	k, err := openIOKit()
	if err != nil {
		return 0, err
	}
	entry := k.find("AGXAccelerator", "")
	if entry == 0 {
		return 0, errors.New("no AGXAccelerator: an Intel Mac or a virtual machine")
	}
	defer k.release(entry)
	ref := k.ask(entry, "gpu-core-count")
	defer k.cf.free(ref)
	n, ok := k.cf.number(ref)
	if !ok || n <= 0 {
		return 0, keyMissing("AGXAccelerator", "gpu-core-count")
	}
	return n, nil
}

func (*darwin) powerSource() (string, error) {
	k, err := openIOKit()
	if err != nil {
		return "", err
	}
	info := k.powerInfo()
	if info == 0 {
		return "", errors.New("IOPSCopyPowerSourcesInfo gave nothing")
	}
	defer k.cf.release(info)
	source := k.cf.text(k.powerSource(info)) // borrowed
	if source == "" {
		return "", errors.New("IOPSGetProvidingPowerSourceType gave nothing")
	}
	return source, nil
}

func (*darwin) adapter() (adapter, bool, error) {
	k, err := openIOKit()
	if err != nil {
		return adapter{}, false, err
	}
	d := k.adapter()
	if d == 0 {
		return adapter{}, false, nil
	}
	defer k.cf.release(d)
	fields := map[string]any{}
	for _, key := range []string{"Watts", "AdapterVoltage", "Current"} {
		if n, ok := k.cf.number(k.cf.get(d, key)); ok {
			fields[key] = n
		}
	}
	fields["Name"] = k.cf.text(k.cf.get(d, "Name"))
	if wireless := k.cf.get(d, "IsWireless"); k.cf.is(wireless, k.cf.booleanType) {
		fields["IsWireless"] = k.cf.booleanGet(wireless)
	}
	a, ok := adapterFrom(fields)
	return a, ok, nil
}
