import os
import socket

peer = socket.socket(socket.AF_UNIX)
peer.connect("rights")
data, fds, _, _ = socket.recv_fds(peer, 10, 4)
file, pipe, listener = fds
print(data, os.read(file, 100))
os.write(pipe, b"through the pipe")
os.close(pipe)
server = socket.socket(fileno=listener)
client = socket.create_connection(server.getsockname())
conn, _ = server.accept()
socket.send_fds(peer, [b"back"], [client.fileno()])
client.close()
conn.sendall(b"to whom?")
conn.close()
peer.close()
