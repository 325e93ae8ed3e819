package testkit
import ("testing";"os";"time";"fmt")
func TestHold(t *testing.T){ s:=SSHD(t,"mini","studio"); os.WriteFile("/tmp/link/words",[]byte(s.Words),0600); fmt.Println(s.Words); for { if _,e:=os.Stat("/tmp/link/stop");e==nil{return}; time.Sleep(200*time.Millisecond)} }
