require 'socket'
s=TCPServer.new('127.0.0.1',0); t=Thread.new{3.times{c=s.accept; l=c.gets; c.puts "ruby #{l}"; c.close}}
3.times{|i| c=TCPSocket.new('127.0.0.1',s.addr[1]); c.puts i; puts c.read; c.close}; t.join
pid=fork{ c=TCPSocket.new('127.0.0.1',s.addr[1]); c.write 'kid'; c.close}; c=s.accept; puts c.read; Process.wait pid
u=UNIXServer.new('ruby.socket'); c=UNIXSocket.new('ruby.socket'); a=u.accept; c.send_io($stdout); io=a.recv_io; io.puts "through"; io.flush
b=UDPSocket.new; b.bind('127.0.0.1',0); b.send("udp",0,'127.0.0.1',b.addr[1]); puts b.recvfrom(10)[0]
