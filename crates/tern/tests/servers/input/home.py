import os
import socket

listener = socket.socket(socket.AF_UNIX)
listener.bind("rights.new")
listener.listen()
os.rename("rights.new", "rights")
peer, _ = listener.accept()
with open("text", "w") as text:
    text.write("a file of home's\n")
out, into = os.pipe()
file = os.open("text", os.O_RDONLY)
server = socket.create_server(("127.0.0.1", 0))
socket.send_fds(peer, [b"take"], [file, into, server.fileno()])
os.close(into)
server.close()
print(os.read(out, 100), os.read(out, 100))
data, fds, _, _ = socket.recv_fds(peer, 10, 4)
client = socket.socket(fileno=fds[0])
print(data, len(fds), client.recv(100), client.recv(100))
print(peer.recv(1))
