import { defineCommand, EXIT } from '../command.ts';
import { option } from '../options.ts';
import { printData } from '../report/print-data.ts';
import { oneOf } from '../values.ts';
import { printVersion, VERSION } from '../version.ts';

/** Tells which version runs, and on what. */
export const version = defineCommand({
  name: 'version',
  summary: 'Show the version',
  options: {
    output: option('FORMAT', oneOf(['json', 'yaml'] as const), undefined, { short: 'o', help: 'One of json, yaml' }),
  },
  run({ output }, _operands, io) {
    const facts = {
      version: `v${VERSION}`,
      nodeVersion: process.version,
      platform: `${process.platform}/${process.arch}`,
    };
    io.stdout.write(output === undefined ? printVersion() : printData(output, facts));
    return Promise.resolve(EXIT.passed);
  },
});
