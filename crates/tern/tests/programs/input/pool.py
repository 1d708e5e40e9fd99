import multiprocessing
import subprocess


def square(x):
    return x * x


if __name__ == "__main__":
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(3) as pool:
            print(method, sum(pool.map(square, range(50))))
    print(subprocess.run(["sh", "-c", "echo out; echo err >&2; exit 5"], capture_output=True))
