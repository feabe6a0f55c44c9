import { dataOf } from './data.ts';
import { printGithub } from './github.ts';
import { printJunit } from './junit.ts';
import { printData } from './print-data.ts';
import { printSarif } from './sarif.ts';
import type { Report } from './types.ts';

/** The formats for programs. They hold warnings and errors, too. */
export const FORMATS = {
  json: (report) => printData('json', dataOf(report)),
  yaml: (report) => printData('yaml', dataOf(report)),
  sarif: printSarif,
  junit: printJunit,
  github: printGithub,
} satisfies Record<string, (report: Report) => string>;

export type Format = keyof typeof FORMATS;

export const FORMAT_NAMES = Object.keys(FORMATS) as readonly Format[];
