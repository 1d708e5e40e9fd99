import asyncio,hashlib,os
async def handle(r,w):
    h=hashlib.sha256(); n=0
    while True:
        d=await r.read(65536)
        if not d: break
        h.update(d); n+=len(d)
        w.write(d); await w.drain()
    w.write(h.digest()); await w.drain(); w.close()
async def client(port,i):
    r,w=await asyncio.open_connection("127.0.0.1",port)
    data=os.urandom(200000+i)
    async def send():
        for k in range(0,len(data),30000): w.write(data[k:k+30000]); await w.drain()
        w.write_eof()
    t=asyncio.create_task(send())
    got=await r.read(); await t
    assert got[:-32]==data and got[-32:]==hashlib.sha256(data).digest(),(len(got),len(data))
    w.close(); return len(got)
async def main():
    s=await asyncio.start_server(handle,"127.0.0.1",0); p=s.sockets[0].getsockname()[1]
    print(await asyncio.gather(*[client(p,i) for i in range(5)]))
    s.close()
asyncio.run(main())
