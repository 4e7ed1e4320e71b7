"""Real programs under load that check themselves: what each is started with, what keeps it busy, and how it says that all was right."""
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path


class Wrong(Exception):
    """The program gave an answer that it does not give untraced."""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for_port(port, seconds=20):
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise Wrong(f"nothing listens on port {port} after {seconds} s")


class Program:
    """One program in a folder of its own. `pids` are the processes to trace; `check` runs again and again beside the load."""
    needs = []
    library = None  # where the work is done, if not in the executable itself

    def __init__(self, folder):
        self.folder = Path(folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.started = []
        self.over = threading.Event()
        self.problem = None

    def spawn(self, *command, **options):
        log = open(self.folder / f"{Path(command[0]).name}.log", "ab")
        options = {"stdout": log, "stderr": log, "stdin": subprocess.DEVNULL, **options}
        self.started.append(subprocess.Popen(list(map(str, command)), **options))
        return self.started[-1]

    def begin(self):
        self.start()
        self.checker = threading.Thread(target=self._keep_checking)
        self.checker.start()

    def _keep_checking(self):
        try:
            while not self.over.is_set():
                self.check()
        except Exception as problem:  # a refused connection is as wrong as a wrong answer
            self.problem = f"{type(problem).__name__}: {problem}"

    def end(self):
        self.over.set()
        self.checker.join()
        try:
            if self.problem is None:
                self.verify()
        except Exception as problem:
            self.problem = f"{type(problem).__name__}: {problem}"
        for process in reversed(self.started):
            if process.poll() is None:
                process.send_signal(self.stop_signal)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                self.problem = self.problem or f"{process.args[0]} does not end"
        return self.problem

    stop_signal = signal.SIGTERM

    def file(self, pid):
        """The file whose functions do the work of a process."""
        if self.library:
            for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
                if f"/{self.library}" in line:
                    return line.split(maxsplit=5)[5]
        return os.readlink(f"/proc/{pid}/exe")

    def verify(self):
        for process in self.started:
            if process.poll() not in (None, 0):
                raise Wrong(f"{process.args[0]} ended with {process.returncode}")


class Redis(Program):
    needs = ["redis-server", "redis-benchmark"]

    def start(self):
        self.port = free_port()
        server = self.spawn("redis-server", "--port", self.port, "--save", "", "--dir", self.folder)
        wait_for_port(self.port)
        self.pids = [server.pid]
        self.spawn("redis-benchmark", "-p", self.port, "-n", 2_000_000_000, "-r", 10000, "-q", "-t", "set,get,lpush,lpop,sadd,zadd")
        self.client = socket.create_connection(("127.0.0.1", self.port)).makefile("rwb")
        self.count = 0

    def ask(self, *words):
        request = b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in (str(w).encode() for w in words))
        self.client.write(request)
        self.client.flush()
        line = self.client.readline().rstrip()
        if line[:1] == b"$":
            return self.client.read(int(line[1:]) + 2)[:-2].decode()
        return line[1:].decode()

    def check(self):
        self.count += 1
        key, value = f"check:{self.count % 100}", hashlib.sha256(str(self.count).encode()).hexdigest()
        if self.ask("SET", key, value) != "OK" or self.ask("GET", key) != value:
            raise Wrong(f"{key} is not what it was set to")
        if int(self.ask("INCR", "check:count")) != self.count:
            raise Wrong(f"INCR lost count at {self.count}")

    def verify(self):
        self.check()
        if self.started[1].poll() is not None:
            raise Wrong(f"redis-benchmark ended early with {self.started[1].returncode}")


class Nginx(Program):
    needs = ["nginx", "wrk"]

    def start(self):
        self.port = free_port()
        (self.folder / "page.html").write_text("x" * 20000)
        (self.folder / "nginx.conf").write_text(
            f"daemon off; worker_processes 1; error_log {self.folder}/error.log; pid {self.folder}/nginx.pid;\n"
            f"user root; events {{}}\nhttp {{ access_log off; client_body_temp_path {self.folder}; proxy_temp_path {self.folder};\n"
            f"fastcgi_temp_path {self.folder}; uwsgi_temp_path {self.folder}; scgi_temp_path {self.folder}; gzip on; gzip_types *;\n"
            f"server {{ listen 127.0.0.1:{self.port}; root {self.folder}; }} }}\n")
        master = self.spawn("nginx", "-p", self.folder, "-c", self.folder / "nginx.conf", "-e", self.folder / "error.log")
        wait_for_port(self.port)
        self.pids = [child_of(master.pid), master.pid]
        self.load = self.spawn("wrk", "-t1", "-c20", "-d100000s", "-H", "Accept-Encoding: gzip", f"http://127.0.0.1:{self.port}/page.html",
                               stdout=open(self.folder / "wrk.txt", "wb"))

    def check(self):
        if urllib.request.urlopen(f"http://127.0.0.1:{self.port}/page.html", timeout=20).read() != b"x" * 20000:
            raise Wrong("a page with other content")

    def verify(self):
        self.check()
        self.load.send_signal(signal.SIGINT)
        self.load.wait(20)
        report = (self.folder / "wrk.txt").read_text()
        if "Non-2xx" in report or "Socket errors" in report or "requests in" not in report:
            raise Wrong(report)


class Postgres(Program):
    needs = ["pgbench"]
    stop_signal = signal.SIGINT

    def start(self):
        tools = max(Path("/usr/lib/postgresql").glob("*/bin"))
        self.port = free_port()
        user = {} if os.geteuid() else {"user": "postgres", "cwd": "/"}
        if user:
            shutil.chown(self.folder, "postgres")
        self.environment = {**os.environ, "PGHOST": "127.0.0.1", "PGPORT": str(self.port), "PGUSER": "postgres", "PGDATABASE": "postgres"}
        data = self.folder / "data"
        subprocess.run([tools / "initdb", "-D", data, "-A", "trust", "-U", "postgres", "--no-sync"], check=True, capture_output=True, **user)
        server = self.spawn(tools / "postgres", "-D", data, "-p", self.port, "-k", self.folder, "-c", "fsync=off", "-h", "127.0.0.1", **user)
        wait_for_port(self.port)
        self.query("SELECT 1", patience=20)
        subprocess.run(["pgbench", "-i", "-q", "-s", "1"], check=True, capture_output=True, env=self.environment)
        self.load = self.spawn("pgbench", "-c", "3", "-T", "100000", env=self.environment)
        time.sleep(1)
        backends = [int(pid) for pid in self.query("SELECT pid FROM pg_stat_activity WHERE application_name = 'pgbench'").split()]
        self.pids = backends[:1] + [server.pid]

    def query(self, text, patience=0):
        for attempt in range(patience + 1):
            done = subprocess.run(["psql", "-XAtc", text], env=self.environment, capture_output=True, text=True, timeout=60)
            if done.returncode == 0:
                return done.stdout.strip()
            time.sleep(0.5 if attempt < patience else 0)
        raise Wrong(done.stderr)

    def check(self):
        sums = self.query("SELECT (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(bbalance) FROM pgbench_branches),"
                          " (SELECT sum(tbalance) FROM pgbench_tellers), (SELECT coalesce(sum(delta), 0) FROM pgbench_history)").split("|")
        if len(set(sums)) != 1:
            raise Wrong(f"the balances differ: {sums}")
        time.sleep(0.2)

    def verify(self):
        if self.load.poll() is not None:
            raise Wrong(f"pgbench ended early with {self.load.returncode}")
        self.load.send_signal(signal.SIGINT)
        self.load.wait(20)
        self.check()


class Interpreter(Program):
    """An interpreter that works through the same task again and again and answers each with the same text."""

    def start(self):
        self.answers = 0
        interpreter = self.spawn(*self.command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.pids = [interpreter.pid]
        self.pipe = interpreter
        self.expected = self.answer()

    def answer(self):
        self.pipe.stdin.write(self.task.encode())
        self.pipe.stdin.flush()
        return self.pipe.stdout.readline()

    def check(self):
        answer = self.answer()
        self.answers += 1
        if answer != self.expected or not answer.strip():
            raise Wrong(f"answer {self.answers} is {answer!r}, the first was {self.expected!r}")

    def verify(self):
        self.check()
        self.pipe.stdin.close()
        if self.pipe.wait(20) != 0:
            raise Wrong(f"ended with {self.pipe.returncode}")


class Node(Interpreter):
    needs = ["node"]
    task = "go\n"
    source = """
const crypto = require('crypto'), zlib = require('zlib');
require('readline').createInterface({input: process.stdin}).on('line', () => {
  const hash = crypto.createHash('sha256'), rows = [];
  for (let i = 0; i < 3000; i++) { rows.push({i, text: 'row ' + i, half: i / 2}); hash.update('row ' + i); }
  const packed = zlib.deflateSync(JSON.stringify(rows));
  const back = JSON.parse(zlib.inflateSync(packed).toString());
  let errors = 0;
  for (let i = 0; i < 100; i++) try { JSON.parse('{' + i); } catch (error) { errors++; }
  back.sort((a, b) => b.half - a.half);
  console.log(hash.digest('hex'), packed.length, back[0].text.replace(/o/g, '0'), errors);
});
"""

    def command(self):
        return ["node", "-e", self.source]


class Python(Interpreter):
    needs = ["python3"]
    library = "libpython"
    task = "go\n"
    source = """
import hashlib, json, re, sys, zlib
for line in sys.stdin:
    rows = [{'i': i, 'text': f'row {i}', 'half': i / 2} for i in range(2000)]
    packed = zlib.compress(json.dumps(rows).encode())
    back = json.loads(zlib.decompress(packed))
    errors = 0
    for i in range(100):
        try: json.loads('{%d' % i)
        except ValueError: errors += 1
    back.sort(key=lambda row: -row['half'])
    print(hashlib.sha256(packed).hexdigest(), re.sub('o', '0', back[0]['text']), errors, flush=True)
"""

    def command(self):
        return [sys.executable, "-c", self.source]


class Sqlite(Interpreter):
    needs = ["sqlite3"]
    library = "libsqlite3"
    task = ("DROP TABLE IF EXISTS t; CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT, c REAL); CREATE INDEX i ON t(b);\n"
            "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 5000)"
            " INSERT INTO t SELECT x, hex(x * 7919 % 10007), x / 3.0 FROM n;\n"
            "DELETE FROM t WHERE b LIKE '%7%'; UPDATE t SET c = c * 2 WHERE b > '5';\n"
            "SELECT count(*), round(sum(c), 3), min(b), max(b), group_concat(DISTINCT substr(b, 1, 1)), (SELECT * FROM pragma_integrity_check)"
            " FROM t;\n")

    def command(self):
        return ["sqlite3", "-batch", self.folder / "base.db"]


def child_of(parent):
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rsplit(") ", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            return int(status.parent.name)
    raise Wrong(f"process {parent} has no child")


ALL = {"redis": Redis, "nginx": Nginx, "postgres": Postgres, "node": Node, "python": Python, "sqlite": Sqlite}
