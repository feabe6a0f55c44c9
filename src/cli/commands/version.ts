import { printYaml } from '../../config/manifests.ts';
import { defineCommand, EXIT } from '../command.ts';
import { option } from '../options.ts';
import { oneOf } from '../values.ts';
import { printVersion, VERSION } from '../version.ts';

/** Tells which version runs, and on what. */
export const version = defineCommand({
  name: 'version',
  summary: 'Show the version',
  options: {
    output: option('FORMAT', oneOf(['json', 'yaml']), undefined, { short: 'o', help: 'One of json, yaml' }),
  },
  run({ output }, _operands, io) {
    const facts = {
      version: `v${VERSION}`,
      nodeVersion: process.version,
      platform: `${process.platform}/${process.arch}`,
    };
    if (output === undefined) io.stdout.write(printVersion());
    else io.stdout.write(output === 'json' ? `${JSON.stringify(facts, undefined, 2)}\n` : printYaml([facts]));
    return Promise.resolve(EXIT.passed);
  },
});
