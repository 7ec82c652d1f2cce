"""Runs `lasthop` so that it ends in order when this program does: a lab that is killed leaves its namespaces behind."""
import shlex
import subprocess

# Maximum time in seconds for a lab to clean up.
PATIENCE = 30


def call(*command):
    """Runs a command to its end and returns its output; an error has the last line of its standard error."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, said = process.communicate()
    except BaseException:
        process.terminate()
        try:
            process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
        raise
    if process.returncode != 0:
        last = (said.strip().splitlines() or ["it said nothing"])[-1]
        raise RuntimeError(f"'{shlex.join(command)}' ended with status {process.returncode}: {last}")
    return out
