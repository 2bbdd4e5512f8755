import { stopServers } from './servers-of-run.js';

/** Global teardown of jest: drops the run's databases and stops what the setups started. One process loads all of them. */
export default stopServers;
