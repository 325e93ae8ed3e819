package serve

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"assay/internal/report"
)

// Guard keeps strangers out.
type Guard struct {
	Hosts []string // names and addresses, without a port, that the site answers to beside those of loopback
	Port  string   // that it listens on
	Token string   // asked of everybody; "": of nobody, which loopback alone allows
	TLS   bool
}

// guard is a Guard at work.
type guard struct {
	Guard
	key []byte // of the cookies
	bad tries
}

// Bounds of what is taken from strangers.
const (
	mostBody  = 64 << 10
	mostTries = 10 // wrong tokens of one address in triesIn; after them the right one is refused there as well
	triesIn   = time.Minute
	mostFrom  = 1000 // addresses that are counted apart; those beyond are counted together
	cookie    = "assay"
	loginFor  = 12 * time.Hour
)

// policy lets a page have what comes from here and nothing else: no script, style, frame or form of anybody's.
const policy = "default-src 'none'; style-src 'self' 'unsafe-inline'; script-src 'self'; img-src 'self' data:; " +
	"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// ofReport is the policy of a run's report, which holds its own script.
func ofReport() string { return report.Policy() + "; frame-ancestors 'none'" }

func (o Guard) around(s *Site, next http.Handler) http.Handler {
	g := &guard{Guard: o, key: make([]byte, 32)}
	_, _ = rand.Read(g.key) // it never fails
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("X-Frame-Options", "DENY")
		r.Body = http.MaxBytesReader(w, r.Body, mostBody)
		if !g.known(r.Host) {
			// A page of a stranger's whose name was bound to this address (DNS rebinding).
			s.fail(w, r, &status{http.StatusMisdirectedRequest, "This site does not answer to that name."})
			return
		}
		if why := g.foreign(r); why != "" {
			s.fail(w, r, &status{http.StatusForbidden, why})
			return
		}
		if g.Token != "" {
			if r.URL.Path == "/login" {
				g.login(s, w, r)
				return
			}
			if now := s.o.Now(); r.Header.Get("Authorization") != "" && !g.bad.left(from(r), now) {
				g.wait(s, w, r)
				return
			} else if !g.may(r, now) {
				g.ask(s, w, r)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// known reports whether the site answers to a name.
func (g *guard) known(host string) bool {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name, port = host, map[bool]string{true: "443", false: "80"}[g.TLS]
	}
	if g.Port != "" && port != g.Port {
		return false
	}
	name = strings.ToLower(strings.Trim(strings.TrimSuffix(name, "."), "[]"))
	if name == "localhost" {
		return true
	}
	if ip := net.ParseIP(name); ip != nil && ip.IsLoopback() {
		return true
	}
	return slices.Contains(g.Hosts, name)
}

// foreign says why a request that another site's page has made is refused. One to read may come by a link from
// anywhere, as a person follows it; its answer is kept from that page by the browser.
func (g *guard) foreign(r *http.Request) string {
	const no = "Another site's page asked for that."
	site := r.Header.Get("Sec-Fetch-Site")
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		if site == "cross-site" && r.Header.Get("Sec-Fetch-Mode") != "navigate" {
			return no
		}
		return ""
	}
	if site != "" && site != "same-origin" && site != "none" {
		return no
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		u, err := url.Parse(origin)
		if err != nil || !strings.EqualFold(u.Host, r.Host) {
			return no
		}
	}
	return ""
}

// may reports whether a request brings the token, or the cookie that was given for it.
func (g *guard) may(r *http.Request, now time.Time) bool {
	if given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return g.right(given)
	}
	c, err := r.Cookie(cookie)
	if err != nil {
		return false
	}
	until, mac, _ := strings.Cut(c.Value, ".")
	at, err := time.Parse(time.RFC3339, until)
	return err == nil && now.Before(at) && hmac.Equal([]byte(mac), []byte(g.sign(until)))
}

// right compares in a time that does not tell how much of it was right.
func (g *guard) right(token string) bool {
	a, b := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(g.Token))
	return hmac.Equal(a[:], b[:])
}

func (g *guard) sign(until string) string {
	m := hmac.New(sha256.New, g.key)
	m.Write([]byte(until))
	return hex.EncodeToString(m.Sum(nil))
}

func (g *guard) ask(s *Site, w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "" {
		g.bad.add(from(r), s.o.Now())
		s.fail(w, r, &status{http.StatusUnauthorized, "That is not the token."})
		return
	}
	if r.URL.Path == "/assay.css" { // the page that asks for it has a style as well
		_ = s.style(w, r)
		return
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="assay"`)
	s.write(w, r, http.StatusUnauthorized, "login", &frame{Title: "The token, please", Closed: true})
}

// login takes the token from a form and gives a cookie for it, which no script can read and no other site's page sends.
func (g *guard) login(s *Site, w http.ResponseWriter, r *http.Request) {
	now := s.o.Now()
	switch {
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		s.write(w, r, http.StatusOK, "login", &frame{Title: "The token, please", Closed: true})
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", "GET, HEAD, POST")
		s.fail(w, r, &status{http.StatusMethodNotAllowed, "Only a token can be sent here."})
	case !g.bad.left(from(r), now):
		g.wait(s, w, r)
	case r.ParseForm() != nil || !g.right(strings.TrimSpace(r.PostForm.Get("token"))):
		g.bad.add(from(r), now)
		s.fail(w, r, &status{http.StatusUnauthorized, "That is not the token."})
	default:
		until := now.Add(loginFor).UTC().Format(time.RFC3339)
		http.SetCookie(w, &http.Cookie{Name: cookie, Value: until + "." + g.sign(until), Path: "/", HttpOnly: true,
			Secure: g.TLS, SameSite: http.SameSiteStrictMode, MaxAge: int(loginFor.Seconds())})
		http.Redirect(w, r, "/", http.StatusSeeOther)
	}
}

func (g *guard) wait(s *Site, w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Retry-After", "60")
	s.fail(w, r, &status{http.StatusTooManyRequests, "Too many wrong tokens: wait a minute."})
}

// from is the address that a request comes from; of IPv6 the network of one customer.
func from(r *http.Request) string {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return ""
	}
	ip := at.Addr().Unmap().WithZone("")
	if net, err := ip.Prefix(64); ip.Is6() && err == nil {
		return net.String()
	}
	return ip.String()
}

// tries are wrong tokens of late, by where they came from: one who guesses shuts nobody else out.
type tries struct {
	mu sync.Mutex
	at map[string][]time.Time
}

func (t *tries) left(from string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.late(t.place(from), now)) < mostTries
}

func (t *tries) add(from string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.at == nil {
		t.at = map[string][]time.Time{}
	}
	if len(t.at) >= mostFrom {
		for other := range t.at {
			t.late(other, now)
		}
	}
	from = t.place(from)
	if late := t.late(from, now); len(late) < mostTries {
		t.at[from] = append(late, now)
	}
}

// place is where an address is counted: "" is for those that came when mostFrom were counted already.
func (t *tries) place(from string) string {
	if _, known := t.at[from]; !known && len(t.at) >= mostFrom {
		return ""
	}
	return from
}

// late forgets what is long ago.
func (t *tries) late(from string, now time.Time) []time.Time {
	late := slices.DeleteFunc(t.at[from], func(at time.Time) bool { return now.Sub(at) > triesIn })
	if len(late) == 0 {
		delete(t.at, from)
		return nil
	}
	t.at[from] = late
	return late
}
