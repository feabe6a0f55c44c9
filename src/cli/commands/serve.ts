import { readArguments } from '../arguments.ts';
import { checkOperands, type Command } from '../command.ts';
import { resolveValues } from '../options.ts';
import { loadConfiguration } from '../serve/configuration.ts';
import { checkVerbosity, serveOptions } from '../serve/options.ts';

const DETAILS = `
Serves the admission reviews of a cluster: of the one that --kubeconfig names, or of the one in
whose pod it runs, with --in-cluster. Without either it brings an embedded cluster to try it on: a
Kubernetes API in memory, on 127.0.0.1, which calls the server as a real one does.

Every option can also be set as an environment variable, PORTCULLIS_ and its name in capitals
(PORTCULLIS_LOG_LEVEL=debug), or under options: in a PortcullisConfiguration file. What is typed
wins over the environment, the environment over the file.

Ctrl-C stops at once; SIGTERM stops after --shutdown-delay-duration, having answered everything.
`;

const description = {
  name: 'serve',
  summary: 'Serve the admission reviews of a cluster, or of an embedded one to try it on',
  details: DETAILS,
  options: serveOptions,
};

export const serve: Command = {
  ...description,
  async prepare(args, env) {
    const { typed, operands } = readArguments(args, serveOptions);
    checkOperands(description, operands);
    checkVerbosity(typed);
    const { config } = resolveValues({ config: serveOptions.config }, { typed, env });
    const configuration = await loadConfiguration(config);
    const values = resolveValues(serveOptions, { typed, env, file: configuration.options });
    // What it takes to serve is most of the program; other commands and the help do without.
    const { run } = await import('../serve/run.ts');
    return (io) => run(values, configuration, io);
  },
};
