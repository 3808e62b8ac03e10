"""What ``--help`` prints: written by hand, so that it reads as one text. ``{prog}`` is the command as it was called."""

MAIN = """\
Which measurement next? Gaussian process models that choose their own data.

  {prog} suggest --help    from two tables to the rows worth measuring
  {prog} report run.nc     what a run knows by now
  {prog} --version
"""

SUGGEST = """\
usage: {prog} measurements.csv --target NAME
         (--candidates pool.csv | --bounds NAME=LOW:HIGH ...) [options]

Suggest which measurements to make next, from a table of those made so far and a table of those that could be made.

  {prog} measurements.csv --target fat --id sample --candidates pool.csv -n 5 --state run.nc

measurements.csv, one row per measurement:    pool.csv, one row per candidate:

  sample,moisture,density,fat                   sample,moisture,density
  M001,60.5,1.061,22.5                          M001,60.5,1.061
  M017,46.0,1.021,40.1                          M002,71.0,1.079
  M020,71.0,1.083,                              M003,72.8,1.085

The inputs are the columns that both tables share (moisture, density), except --id and --target. M020 has no result
yet and is left out. A candidate that was measured (same id, or same inputs) is not suggested again.

tables
  --target NAME            the column with the results
  --candidates pool.csv    what could be measured, one row each
  --bounds NAME=LOW:HIGH   instead of candidates: the range of an input. Repeat it for every input; any point within
                           these ranges may be suggested
  --id NAME                the column that names rows, such as sample
  --inputs A,B,C           the inputs, if not all shared columns
  --separator CHAR         between columns: ',' ';' tab (default ',')
  --decimal CHAR           decimal point, '.' or ',' (default '.')
  --encoding NAME          of the tables, such as cp1252 (default UTF-8)

goal
  --learn GOAL             function (default), hyperparameters, model or maximum; see below
  -n N                     number of suggestions (default 1; 0: learn, show what is open)
  --minimize               with --learn maximum: look for the minimum
  --criterion NAME         replace the goal's own criterion; see below

model
  --model NAME             ard, a lengthscale for each input (default up to {many} inputs); embedding, a few learned
                           combinations of the inputs (default for more); or a kernel such as 'SE', 'LIN + PER * RQ',
                           'SE[time] * LIN[dose]'. Repeat it, and the models compete
  --components D           number of combinations, for embedding (default 2)
  --noise SD               roughly the standard deviation of repeated measurements, in units of the target
  --target-scale TYPICAL,SPREAD
                           what to expect of the target, such as 18,12 (default: from the measurements)
  --seed N                 same seed and tables, same suggestions (default 0)

run
  --state run.nc           the file that remembers: the first call makes it, later calls continue it
  --rebuild                start the run in --state again from the table. Its options stay, except those given
  --forget-pending         give up suggestions that have no result
  --verify WHEN            sometimes, or K for every K-th measurement: compare the fit with a longer run, which
                           takes its place where it predicts better (default: never)

results
  --output next.csv        write the suggestions as rows to fill in
  --plot picture.png       draw what is known, two inputs as a map (needs the extra 'plots')
  --quiet                  print the table without notes
  --debug                  show where an error comes from

goals (--learn)
  function         the target everywhere: measures what makes predictions of all candidates most certain. For a
                   calibration or a map.
  hyperparameters  what the model leaves open: how much each input matters, on which scale the target changes, how
                   large the noise is, which combination of many inputs counts. For finding out what matters.
  model            which of several kernels is right (name them: --model SE --model 'LIN + PER * RQ' ...).
  maximum          where the target is largest, or smallest with --minimize. For the best settings.

criteria (--criterion)
{criteria}

units
  Inputs, target and everything printed are in your units. A number behind ± is one standard deviation (sd), in the
  table that of a measurement; bars and bands of the picture are 89 % intervals, 1.6 sd to either side.
  A score in nats is expected information; the integrated variance is by how much the variance of predictions falls;
  the log expected improvement is the logarithm of a gain. Larger is better. Each score in a batch takes the rows
  above it as measured.

what happens next
  Measure, write the results into measurements.csv (in any order; other measurements are welcome), and repeat the
  command. --state run.nc remembers model, scales, candidates and suggestions: new rows of the table are learned, and
  suggestions without a result stay open and are taken into account. If numbers changed or rows vanished, an error
  names them. For an experiment that failed write 'failed' instead of a number, not a penalty: the next
  ones are weighed by the probability that they work.
  --output next.csv writes the suggestions as rows to fill in.

more examples
  The best settings, anywhere in a range:
    {prog} trials.csv --target yield --learn maximum \\
        --bounds temperature=40:120 --bounds minutes=5:60 -n 2 --state trials.nc
  Spectra with 100 channels, where an assay is good to 0.4 %:
    {prog} assays.csv --target fat --id sample --candidates spectra.csv --noise 0.4 -n 5 \\
        --state fat.nc --output next.csv --plot fat.png
  A table from a German or French spreadsheet:
    {prog} messungen.csv --target Fett --candidates proben.csv --separator ';' --decimal ,
  A result was corrected:
    {prog} measurements.csv --state run.nc --rebuild

In Python, learner = pymc_active.active.Learner.load("run.nc") continues the same run. After learner.save("run.nc")
the command line knows what was told there; these results must be in measurements.csv as well.
"""

REPORT = """\
usage: {prog} run.nc [--debug]

Print what a run of 'suggest' knows: measurements, open suggestions, the best point or the most probable model, and
the hyperparameters, in your units where they have one. Changes nothing.

  run.nc     the file that suggest --state wrote
  --debug    show where an error comes from
"""
