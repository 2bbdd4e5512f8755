/** Written to every run, so that it can be explained years later. Equals the version of package.json. */
export const ENGINE_VERSION = '0.1.0';
