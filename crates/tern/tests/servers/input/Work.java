import java.util.*; import java.util.concurrent.*; import java.nio.file.*;
public class Work { public static void main(String[] a) throws Exception {
 var p = Executors.newFixedThreadPool(4); List<Future<Long>> f = new ArrayList<>();
 for (int i = 0; i < 8; i++) { final int n = i; f.add(p.submit(() -> { long s = 0; for (int k = 0; k < 1000000; k++) s += k ^ n; return s; })); }
 for (var x : f) System.out.println(x.get()); p.shutdown();
 var q = new ProcessBuilder("sh", "-c", "echo child; exit 5").redirectErrorStream(true).start();
 System.out.println(new String(q.getInputStream().readAllBytes()).trim() + q.waitFor());
 Files.writeString(Path.of("out"), "written"); System.out.println(Files.readString(Path.of("out")) + ProcessHandle.current().isAlive());
 try (var s = new java.net.ServerSocket(0); var c = new java.net.Socket("127.0.0.1", s.getLocalPort()); var d = s.accept()) { c.getOutputStream().write(7); System.out.println(d.getInputStream().read()); }
} }
