const net=require('net'),http=require('http');
const s=http.createServer((q,r)=>{r.end("node "+q.url+"\n")}).listen(0,'127.0.0.1',()=>{const p=s.address().port;
 let n=0; for(let i=0;i<20;i++) http.get({port:p,host:'127.0.0.1',path:'/'+i},r=>{let d='';r.on('data',x=>d+=x);r.on('end',()=>{if(d!="node /"+i+"\n")console.log('bad',d); if(++n==20){console.log('all');s.close(); unix()}})})});
function unix(){const u=net.createServer(c=>{c.on('data',d=>c.end('got '+d))}).listen('node.socket',()=>{const c=net.connect('node.socket',()=>c.write('hi'));c.on('data',d=>console.log(''+d));c.on('close',()=>u.close())})}
