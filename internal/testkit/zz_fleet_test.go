package testkit
import ("testing";"os";"time")
func TestHoldFleet(t *testing.T){ s:=SSHD(t,"a","b","c"); os.WriteFile("/tmp/fleet/words",[]byte(s.Words),0600); for { if _,e:=os.Stat("/tmp/fleet/stop");e==nil{return}; time.Sleep(200*time.Millisecond)} }
