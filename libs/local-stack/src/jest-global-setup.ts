import { startServer } from './servers-of-run.js';

/** Global setup of jest: the server of a run. */
export default (): Promise<void> => startServer();
