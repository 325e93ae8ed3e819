package host

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRedact(t *testing.T) {
	id := identity{users: []string{"mira.lund", "Mira Lund", "root"}, hosts: []string{"miras-book.lan", "miras-book"},
		homes: []string{"/Users/mira.lund", "/"}}
	for _, c := range []struct{ in, want string }{
		{"      Serial Number (system): C02XK1ABJGH5\n      Hardware UUID: 2B05150B-FA33-45BD-90F0-3369BF908E3E\n",
			"      Serial Number (system): <removed>\n      Hardware UUID: <removed>\n"},
		{"      Provisioning UDID: 00008103-001A2B3C4D5E6F78\n      Activation Lock Status: Disabled\n",
			"      Provisioning UDID: <removed>\n      Activation Lock Status: Disabled\n"},
		{"      Computer Name: Mira’s Book\n      User Name: Mira Lund (mira.lund)\n",
			"      Computer Name: <removed>\n      User Name: <removed>\n"},
		{"udid 00008103-001A2B3C4D5E6F78, id 2b05150b-fa33-45bd-90f0-3369bf908e3e\n", "udid <udid>, id <uuid>\n"},
		{`"_spdisplays_display-serial-number" : "4254554c",`, `"_spdisplays_display-serial-number" : "<removed>",`},
		{`{"SerialString"="C4H1234","Watts"=94,"IOPlatformUUID" = "x"}`,
			`{"SerialString"="<removed>","Watts"=94,"IOPlatformUUID" = "<removed>"}`},
		{`"serial-number" = <4a474835000000>`, `"serial-number" = "<removed>"`},
		{`"voltage-states9" = <00000000900100000084d717580200000046c323bc020000>`,
			`"voltage-states9" = <00000000900100000084d717580200000046c323bc020000>`},
		{"ether a4:83:e7:01:23:ab up", "ether <mac> up"},
		{"//brazil@MyCloudEX2Ultra._afpovertcp._tcp.local/brazil on /Volumes/brazil (afpfs, nodev, mounted by kelly)\n",
			"//<user>@<host>/<share> on /Volumes/<volume> (afpfs, nodev, mounted by <user>)\n"},
		{"//someone:pa55@nas/Films on /Volumes/My Films (smbfs)\n",
			"//<user>@<host>/<share> on /Volumes/<volume> (smbfs)\n"},
		{"https://ann:pw@dav.example.org/x on /Volumes/x (webdav)\n",
			"https://<user>@<host>/<share> on /Volumes/<volume> (webdav)\n"},
		{"//nas/My Films on /Volumes/My Films (smbfs)\n", "//<user>@<host>/<share> on /Volumes/<volume> (smbfs)\n"},
		{"fileserver.lan:/export/team on /Volumes/team (nfs)\n", "<host>:/<path> on /Volumes/<volume> (nfs)\n"},
		{"41 22 0:50 / /mnt/d rw - nfs4 nas:/export rw,addr=10.0.0.7,clientaddr=10.0.0.9\n",
			"41 22 0:50 / /mnt/d rw - nfs4 <host>:/<path> rw,addr=<removed>,clientaddr=<removed>\n"},
		{"42 22 0:51 / /w rw - cifs //nas/films rw,username=ann,uid=0\n",
			"42 22 0:51 / /w rw - cifs //<host>/<share> rw,username=<removed>,uid=0\n"},
		{"overlay /var/lib/docker/overlay2/0123456789abcdef0123456789abcdef01234567/merged",
			"overlay /var/lib/docker/overlay2/<hex>/merged"},
		{" -InternalBattery-0 (id=5308515)\t80%; charging\n", " -InternalBattery-0 (id=<removed>)\t80%; charging\n"},
		{" sleep                1 (sleep prevented by com.bombich.ccchelper, powerd)\n",
			" sleep                1 (sleep prevented by <programs>)\n"},
		{"/Users/mira.lund/x /Users/other/y /home/ann/z", "<home>/x /Users/<user>/y /home/<user>/z"},
		{"Mira Lund's MIRAS-BOOK and miras-book.lan, not mira.lundgren",
			"<user>'s <host> and <host>, not mira.lundgren"},
		{"map auto_home on /home (autofs, automounted, nobrowse)\n",
			"map auto_home on /home (autofs, automounted, nobrowse)\n"},
		{"    GPU UUID                              : GPU-5aa12345-1234-1234-1234-123456789abc\n",
			"    GPU UUID                              : <removed>\n"},
	} {
		got := string(redact([]byte(c.in), id))
		if got != c.want {
			t.Errorf("%q\n gives %q\n want  %q", c.in, got, c.want)
		}
		if again := string(redact([]byte(got), id)); again != got {
			t.Errorf("redacted twice: %q, then %q", got, again)
		}
	}
}

// The recordings keep what parsers need and lose what names somebody.
func TestRedactFixtures(t *testing.T) {
	gone := map[string][]string{
		"mount-10.14.6-intel-afp.txt":                               {"brazil", "kelly", "MyCloud"},
		"mount-bigsur-macfuse.txt":                                  {"/Volumes/Test"},
		"pmset-g-batt-bigsur-m1-hold.txt":                           {"5308515"},
		"pmset-g-applesilicon-mbp-2022.txt":                         {"bombich", "bluetoothd", "apphousekitchen"},
		"system_profiler-SPDisplaysDataType-m3pro-partial.json.txt": {"4254554c"},
	}
	kept := map[string][]string{
		"mount-10.14.6-intel-afp.txt": {"(afpfs, nodev",
			"/dev/disk1s1 on / (apfs, local, journaled)"},
		"pmset-g-applesilicon-mbp-2022.txt":                    {" lowpowermode         0", "SleepDisabled"},
		"system_profiler-mini-SPHardwareDataType-Mac14,10.txt": {"Chip: Apple M2 Pro", "Model Number: MNW83D/A"},
		"ioreg-IOAccelerator-12.6-t6000-partial.txt":           {`"Device Utilization %"=2`, "<6b100000>"},
	}
	// These hold nothing of anybody, and must pass unchanged.
	same := []string{"sysctl-hw-cpu-sequoia-m4max.txt", "vm_stat-4k-pages.txt", "sw_vers-21G83.txt",
		"system_profiler-SPDisplaysDataType-m3.txt",
		"sysctl-vm.swapusage-25F84-Mac16,13.txt", "notifyutil-thermalpressurelevel-25F84-Mac16,13.txt",
		"ioreport-energy-model-26A428-Mac17,7-m5max.tsv",
		"powermetrics-22E252-MacBookPro17,1.plist", "mount-10.15-data-nfs-exported.txt"}
	for name, words := range gone {
		got := redact(fixture(t, name), identity{})
		for _, w := range words {
			if bytes.Contains(got, []byte(w)) {
				t.Errorf("%s still has %q:\n%s", name, w, got)
			}
		}
	}
	for name, words := range kept {
		got := redact(fixture(t, name), identity{})
		for _, w := range words {
			if !bytes.Contains(got, []byte(w)) {
				t.Errorf("%s lost %q:\n%s", name, w, got)
			}
		}
	}
	for _, name := range same {
		if text := fixture(t, name); !bytes.Equal(redact(text, identity{}), text) {
			t.Errorf("%s was changed", name)
		}
	}
}

func TestRecord(t *testing.T) {
	all := []recording{
		{"mount", "mount", func(context.Context) ([]byte, error) {
			return []byte("/dev/x on /Users/ann (apfs, local)"),
				nil
		}},
		{"pmset-g", "pmset -g", func(context.Context) ([]byte, error) { return nil, os.ErrNotExist }},
		{"large", "cat large", func(context.Context) ([]byte, error) {
			return bytes.Repeat([]byte("x\n"),
				recordSection), nil
		}},
	}
	var out bytes.Buffer
	if err := record(t.Context(), &out, all, identity{}); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	if !strings.HasPrefix(text, "== mount: mount\n/dev/x on /Users/<user> (apfs, local)\n== pmset-g: pmset -g\n[assay: not on this system]\n== large: cat large\nx\n") ||
		!strings.HasSuffix(text, "\n[assay: cut at 262144 of 524288 bytes]\n") {
		t.Errorf("%.200q … %q", text, text[len(text)-60:])
	}
	broken := errors.New("disk full")
	if err := record(t.Context(), failing{broken}, all, identity{}); !errors.Is(err, broken) ||
		!strings.Contains(err.Error(), "section mount") {
		t.Errorf("%v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := record(ended, &out, all, identity{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// What this host writes can be read back, and does not name the home folder or the host.
func TestRecordHere(t *testing.T) {
	var out bytes.Buffer
	if err := Record(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	id := ownIdentity()
	for _, w := range append(words(id.hosts, 3), words(id.homes, 4)...) {
		if strings.Contains(out.String(), w) {
			t.Errorf("%q is in the record", w)
		}
	}
}

func FuzzRedact(f *testing.F) {
	files, _ := filepath.Glob("testdata/mac/*.txt")
	for _, name := range files {
		text, _ := os.ReadFile(name)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		id := identity{users: []string{"mira.lund"}, hosts: []string{"miras-book"}}
		got := string(redact(text, id))
		if strings.Contains(got, "Serial Number: C02") {
			t.Errorf("%q", got)
		}
	})
}
