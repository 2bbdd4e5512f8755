// Starts a server with the options in argv[2], prints the server or the error as one line of JSON, and stays.
import { startEmbeddedPostgres } from 'local-stack';

const { exitWith, ...options } = JSON.parse(process.argv[2]);
try {
  const { url, port, pid, dataDir } = await startEmbeddedPostgres(options);
  process.stdout.write(`${JSON.stringify({ url, port, pid, dataDir })}\n`);
  if (exitWith === 'end of program') process.stdin.destroy();
  else if (exitWith === 'process.exit') process.exit();
  else process.stdin.resume();
} catch (error) {
  process.stdout.write(`${JSON.stringify({ code: error.code, message: error.message, ...error })}\n`, () =>
    process.exit(),
  );
}
